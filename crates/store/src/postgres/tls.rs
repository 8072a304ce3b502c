//! TLS by rustls with `ring`, following libpq's semantics of `sslmode`.

use std::sync::Arc;

use cleveragents_ports::{Result, StoreError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Address, Encryption};

/// A connector for every mode except `disable`.
pub(super) fn connector(address: &Address) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(StoreError::internal)?;
    let config = if address.encryption == Encryption::VerifyFull {
        builder
            .with_root_certificates(load_root_certificates(address)?)
            .with_no_client_auth()
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServerVerifier(provider)))
            .with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

fn load_root_certificates(address: &Address) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    if let Some(path) = &address.root_certificates {
        let unreadable = |reason: String| StoreError::Address {
            reason: format!("the certificates in {}: {reason}", path.display()),
        };
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|e| unreadable(e.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|e| unreadable(e.to_string()))?;
            store
                .add(certificate)
                .map_err(|e| unreadable(e.to_string()))?;
        }
        return Ok(store);
    }
    let found = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        return Err(StoreError::Address {
            reason: "no trusted certificates were found on this system; \
                     name some with sslrootcert=FILE"
                .to_owned(),
        });
    }
    Ok(store)
}

/// Accepts any certificate, as libpq does for `prefer` and `require`: the connection is encrypted,
/// but the server's identity is not verified. Signatures are still checked.
#[derive(Debug)]
struct AnyServerVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServerVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
