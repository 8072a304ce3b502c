//! Checks of the connections to providers of models.

use std::time::Duration;

use cleveragents_ports::models::ModelErrorKind;

use super::HealthCheck;
use crate::bootstrap::{ProviderOrigin, ProviderReply};
use crate::commands::CommandContext;
use crate::output::format_count;

/// Timeout of each provider. They are asked in parallel.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks each configured provider for its models. Settings and a data directory that cannot be read
/// are reported by other checks.
pub(super) fn checks(context: &CommandContext<'_>) -> Vec<HealthCheck> {
    let Ok(bootstrap) = context.bootstrap() else {
        return Vec::new();
    };
    let replies = bootstrap.ask_providers(TIMEOUT).unwrap_or_default();
    replies.iter().map(check).collect()
}

fn check(reply: &ProviderReply) -> HealthCheck {
    let ProviderReply { name, origin, .. } = reply;
    let title = format!("provider {name}");
    let error = match &reply.models {
        Ok(models) => {
            let models = format_count(i64::try_from(*models).unwrap_or(i64::MAX), "model");
            let duration = u64::try_from(reply.elapsed.as_millis()).unwrap_or(u64::MAX);
            let detail = format!("{models}, answered in {duration} ms ({origin})");
            let mut check = HealthCheck::ok(title, detail);
            check.duration_ms = Some(duration);
            return check;
        }
        Err(error) => error,
    };
    let detail = format!("{} ({origin})", error.message);
    match (error.kind, origin) {
        (ModelErrorKind::Unavailable, _) if name == "scripted" => HealthCheck::ok(title, detail),
        (ModelErrorKind::Auth, ProviderOrigin::Key(source)) => HealthCheck::warning(title, detail)
            .with_hint(format!("it refuses the key from {source}; set another one there")),
        (ModelErrorKind::Auth, _) => HealthCheck::warning(title, detail)
            .with_hint("it needs a key: provider.…api-key in `agents config list`, or `key_variable` in models.yaml"),
        _ => HealthCheck::warning(title, detail).with_hint("agents diagnostics --offline skips it"),
    }
}
