//! Switches to the command's user and drops every privilege permanently.

use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::account::SandboxAccount;

/// Leaves the calling thread without capabilities and without a way to regain any, running as
/// `account` if given.
pub(super) fn drop_privileges(account: Option<SandboxAccount>) -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    if let Some(account) = account {
        drop_capability_bounds();
        let (user, group) = (account.uid(), account.gid());
        // The user comes last: without root the groups could no longer be changed.
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // Verify the result rather than trust the calls: continuing as root would break the
        // confinement.
        if geteuid() != user || getegid() != group {
            return Err(io::Error::other("the user could not be changed"));
        }
    }
    let nothing = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, nothing)?)
}

/// Removes capabilities that programs started later could get. Defence in depth: with `no_new_privs`
/// they get none anyway.
fn drop_capability_bounds() {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |held| held.permitted);
    if held.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}
