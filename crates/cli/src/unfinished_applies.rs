//! Unfinished applies, for commands that do not display the reply to the request that reports them.

use cleveragents_ports::StoreError;

use crate::bootstrap::AppContext;

/// Logs warnings about unfinished applies, for commands that only read, or read before they send
/// the request whose reply they display.
pub fn log_unfinished_applies(app: &AppContext<'_>) -> Result<(), StoreError> {
    let warnings = app.block_on(app.app().unfinished_apply_warnings())?;
    app.app().log_messages(&warnings);
    Ok(())
}

/// Recovers unfinished applies and logs what was done, for commands that ask a question or work
/// before they display a reply.
pub async fn recover_applies(app: &AppContext<'_>) -> Result<(), StoreError> {
    let messages = app.app().recover_applies(&app.caller()).await?;
    app.app().log_messages(&messages);
    Ok(())
}
