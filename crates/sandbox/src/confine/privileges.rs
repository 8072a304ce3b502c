//! Becomes the command's user and gives up every privilege, for good.

use std::io;

use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::account::SandboxAccount;

/// Leaves the calling thread without capabilities and without a way to get any, as `account` if
/// there is one.
pub(super) fn drop_privileges(account: Option<SandboxAccount>) -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    if let Some(account) = account {
        drop_capability_bounds();
        let (user, group) = (account.uid(), account.gid());
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // Never trust that it worked.
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

/// Takes from programs that are run later what they could ever be given. It is a second line: with
/// `no_new_privs` none is given anything.
fn drop_capability_bounds() {
    let held = capabilities(None).map_or(CapabilitySet::empty(), |held| held.permitted);
    if held.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}
