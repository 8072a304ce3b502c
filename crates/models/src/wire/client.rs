//! The HTTP client of one provider: TLS by `ring` with the system's certificates, no redirects, and
//! only explicitly configured proxies.

use std::sync::Arc;

use cleveragents_ports::models::{ModelError, ModelErrorKind};
use reqwest::redirect::Policy;
use reqwest::{Client, NoProxy, Proxy};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::failure::{ErrorReporter, ModelFault};
use crate::secret::Secret;
use crate::settings::{Proxies, Timeouts};

const USER_AGENT: &str = concat!("cleveragents/", env!("CARGO_PKG_VERSION"));

/// Builds a client for requests to `base_url`. Certificates are loaded only if it uses TLS.
pub(crate) fn build_client(
    base_url: &str,
    timeouts: &Timeouts,
    proxies: &Proxies,
    reporter: &ErrorReporter,
) -> Result<Client, ModelError> {
    let fail = |what: String| reporter.error(ModelFault::new(ModelErrorKind::Unavailable, what));
    let plain = base_url.starts_with("http://") && proxies.http.is_none();
    let roots = if plain {
        RootCertStore::empty()
    } else {
        system_roots()
            .ok_or_else(|| fail("no trusted certificates were found on this system".to_owned()))?
    };
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| fail(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        // A redirect would send the key to another server.
        .redirect(Policy::none())
        .connect_timeout(timeouts.connect)
        // A server may close an idle connection at the moment it is reused, and a request that may
        // have been billed must not be sent twice. A new connection costs little compared to an
        // answer.
        .pool_max_idle_per_host(0)
        // Otherwise the client would read proxies from the environment.
        .no_proxy();
    for proxy in build_proxies(proxies).map_err(&fail)? {
        builder = builder.proxy(proxy);
    }
    builder
        .build()
        .map_err(|error| fail(format!("it cannot be called: {error}")))
}

fn system_roots() -> Option<RootCertStore> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    (!store.is_empty()).then_some(store)
}

fn build_proxies(proxies: &Proxies) -> Result<Vec<Proxy>, String> {
    let except = proxies.no_proxy.as_deref().and_then(NoProxy::from_string);
    let make = |address: &Secret, of: fn(&str) -> reqwest::Result<Proxy>| {
        let proxy =
            of(address.expose()).map_err(|_| "the address of the proxy is invalid".to_owned());
        proxy.map(|proxy| proxy.no_proxy(except.clone()))
    };
    let http = proxies
        .http
        .as_ref()
        .map(|it| make(it, |url| Proxy::http(url)));
    let https = proxies
        .https
        .as_ref()
        .map(|it| make(it, |url| Proxy::https(url)));
    http.into_iter().chain(https).collect()
}
