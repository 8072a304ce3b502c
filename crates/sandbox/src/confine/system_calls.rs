//! System calls that a confined command may not use, whatever files it can access.
//!
//! - Sockets: Landlock covers only TCP, and a network namespace separates neither sockets with a path
//!   nor those to the hypervisor. So few families are allowed, or none. Connected stream pairs reach
//!   no other process and are always allowed.
//! - `io_uring`, because it creates sockets without the calls filtered here.
//! - Keyrings, because those of the session that started the command would be accessible.
//! - User namespaces, because a command has privileges in them, and more of the kernel to attack.
//! - Limits, priorities and processors of other processes, if no PID namespace hides them; then also
//!   System V shared memory, and watching folders.

use std::collections::BTreeMap;
use std::io;

use cleveragents_domain::process::Network;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::policy::Enforcement;

/// Families that programs use: local services, the network, and queries about interfaces.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Forbidden with any arguments.
const FORBIDDEN: [i64; 7] = [
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_setns,
];

/// Calls that change a process, and the index of the argument that names it; 0 means the caller.
const ON_A_PROCESS: [(i64, u8); 7] = [
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// Calls that change all processes of a user, and the first argument that selects this. User 0 then
/// means the caller's own user, who also owns processes outside the sandbox.
const ON_A_USER: [(i64, i32); 2] = [
    (libc::SYS_setpriority, PRIO_USER),
    (libc::SYS_ioprio_set, IOPRIO_WHO_USER),
];
const PRIO_USER: i32 = 2;
const IOPRIO_WHO_USER: i32 = 3;

/// Forbidden if the machine's objects are visible: System V memory, queues and semaphores, which no
/// folder rule covers, and notifications about files in folders whose names cannot be read.
const FORBIDDEN_IN_SIGHT: [i64; 13] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
];

/// Pairs of these types are not tied to each other: a datagram can be sent to any path.
const UNBOUND_PAIRS: [i32; 2] = [libc::SOCK_DGRAM, libc::SOCK_RAW];

/// The bits of a socket's type that are not flags.
const TYPE_BITS: u64 = 0xf;

/// The x32 ABI bit: on x86-64 each call has a second number with this bit set.
const SHORT_POINTERS: i64 = 0x4000_0000;

/// Which sockets a command can create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketAccess {
    None,
    Common,
}

impl SocketAccess {
    /// A command in its own network namespace needs sockets to connect to itself.
    pub(super) fn for_policy(enforced_by: &Enforcement, network: Network) -> Self {
        match (enforced_by, network) {
            (Enforcement::Landlock, Network::Deny) => Self::None,
            _ => Self::Common,
        }
    }
}

/// Returns whether [`forbid`] supports this machine's processor.
pub(super) fn can_be_filtered() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// Whose limits, priority and processors a command can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheduling {
    /// Only its own: other processes of its user are visible.
    OwnOnly,
    /// Those of all visible processes, which belong to the command.
    InSight,
}

impl Scheduling {
    pub(super) fn for_enforcement(enforced_by: &Enforcement) -> Self {
        match enforced_by {
            Enforcement::Landlock => Self::OwnOnly,
            Enforcement::Bubblewrap(_) | Enforcement::Nothing => Self::InSight,
        }
    }
}

/// Forbids these system calls to the calling thread and its children. Does nothing on a processor
/// that the filter does not support.
pub(super) fn forbid(sockets: SocketAccess, scheduling: Scheduling) -> io::Result<()> {
    let Ok(processor) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(());
    };
    // A filter returns one error for all its calls, so each error needs a filter of its own.
    for (calls, error) in [
        (socket_calls(sockets)?, libc::EACCES),
        (forbidden_calls(scheduling)?, libc::EPERM),
        // The filter cannot see the arguments of `clone3`. On ENOSYS the C library falls back to
        // `clone`.
        (match_numbers([libc::SYS_clone3]), libc::ENOSYS),
    ] {
        let error = SeccompAction::Errno(error.unsigned_abs());
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, error, processor);
        let program = filter.and_then(BpfProgram::try_from);
        let program = program.map_err(io::Error::other)?;
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Matches calls by their number alone.
fn match_numbers(numbers: impl IntoIterator<Item = i64>) -> SyscallRules {
    let numbered = |number| [number, number | SHORT_POINTERS].map(|it| (it, Vec::new()));
    numbers.into_iter().flat_map(numbered).collect()
}

/// Matches a call if all `conditions` hold.
fn call_if(number: i64, conditions: Vec<SeccompCondition>) -> io::Result<SyscallRules> {
    let rule = SeccompRule::new(conditions).map_err(io::Error::other)?;
    Ok(call_with(number, &[rule]))
}

/// Matches a call if one of `conditions` holds.
fn call_if_any(number: i64, conditions: Vec<SeccompCondition>) -> io::Result<SyscallRules> {
    let rules = conditions.into_iter().map(|it| SeccompRule::new(vec![it]));
    let rules: Result<Vec<SeccompRule>, _> = rules.collect();
    Ok(call_with(number, &rules.map_err(io::Error::other)?))
}

fn call_with(number: i64, rules: &[SeccompRule]) -> SyscallRules {
    let numbers = [number, number | SHORT_POINTERS];
    numbers.map(|it| (it, rules.to_vec())).into()
}

fn first_argument(operator: SeccompCmpOp, value: i32) -> io::Result<SeccompCondition> {
    argument(0, operator, value)
}

fn argument(index: u8, operator: SeccompCmpOp, value: i32) -> io::Result<SeccompCondition> {
    let value = u64::from(value.unsigned_abs());
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value);
    condition.map_err(io::Error::other)
}

fn socket_calls(sockets: SocketAccess) -> io::Result<SyscallRules> {
    let is_other = |family| first_argument(SeccompCmpOp::Ne, family);
    match sockets {
        SocketAccess::None => {
            let mut calls = match_numbers([libc::SYS_socket]);
            let unbound = UNBOUND_PAIRS.into_iter();
            let unbound = unbound.map(|it| argument(1, SeccompCmpOp::MaskedEq(TYPE_BITS), it));
            let unbound = unbound.collect::<io::Result<_>>()?;
            calls.extend(call_if_any(libc::SYS_socketpair, unbound)?);
            Ok(calls)
        }
        SocketAccess::Common => {
            let others = FAMILIES.into_iter().map(is_other);
            call_if(libc::SYS_socket, others.collect::<io::Result<_>>()?)
        }
    }
}

fn forbidden_calls(scheduling: Scheduling) -> io::Result<SyscallRules> {
    let user = libc::CLONE_NEWUSER;
    let makes_users = || {
        let has_flag = SeccompCmpOp::MaskedEq(u64::from(user.unsigned_abs()));
        first_argument(has_flag, user)
    };
    let mut calls = match_numbers(FORBIDDEN);
    for number in [libc::SYS_unshare, libc::SYS_clone] {
        calls.extend(call_if(number, vec![makes_users()?])?);
    }
    if scheduling == Scheduling::OwnOnly {
        calls.extend(match_numbers(FORBIDDEN_IN_SIGHT));
        for (number, process) in ON_A_PROCESS {
            let mut refused = vec![argument(process, SeccompCmpOp::Ne, 0)?];
            for (_, user) in ON_A_USER.iter().filter(|(call, _)| *call == number) {
                refused.push(first_argument(SeccompCmpOp::Eq, *user)?);
            }
            calls.extend(call_if_any(number, refused)?);
        }
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    fn refused_families(sockets: SocketAccess) -> Vec<(u16, Option<Errno>)> {
        // The filter applies only to the thread that installs it.
        let bound = std::thread::spawn(move || {
            forbid(sockets, Scheduling::OwnOnly).unwrap();
            assert!(UnixStream::pair().is_ok());
            let datagrams = UnixDatagram::pair().err();
            let refused = (sockets == SocketAccess::None).then_some(Errno::ACCESS.raw_os_error());
            assert_eq!(datagrams.and_then(|error| error.raw_os_error()), refused);
            let families = [
                AddressFamily::UNIX,
                AddressFamily::INET,
                AddressFamily::VSOCK,
                AddressFamily::from_raw(38),
            ];
            let tried = families.map(|family| {
                let made = socket(family, SocketType::STREAM, None);
                (family.as_raw(), made.err())
            });
            tried.to_vec()
        });
        bound.join().unwrap()
    }

    #[test]
    fn only_common_sockets_or_none_can_be_created() {
        let denied = Some(Errno::ACCESS);
        assert_eq!(
            refused_families(SocketAccess::Common),
            [(1, None), (2, None), (40, denied), (38, denied)]
        );
        assert_eq!(
            refused_families(SocketAccess::None),
            [(1, denied), (2, denied), (40, denied), (38, denied)]
        );
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
    }

    #[test]
    fn priority_of_a_named_process_cannot_be_changed() {
        use rustix::process::{getpid, getpriority_process, setpriority_process};
        let set_own = |scheduling| {
            let bound = std::thread::spawn(move || {
                forbid(SocketAccess::None, scheduling).unwrap();
                let same = getpriority_process(None).unwrap();
                setpriority_process(None, same).unwrap();
                setpriority_process(Some(getpid()), same).err()
            });
            bound.join().unwrap()
        };
        let set_user = |scheduling| {
            let bound = std::thread::spawn(move || {
                use rustix::process::{getpriority_user, setpriority_user};
                forbid(SocketAccess::None, scheduling).unwrap();
                let same = getpriority_user(rustix::process::Uid::ROOT).unwrap();
                setpriority_user(rustix::process::Uid::ROOT, same).err()
            });
            bound.join().unwrap()
        };
        assert_eq!(set_user(Scheduling::OwnOnly), Some(Errno::PERM));
        assert_eq!(set_own(Scheduling::OwnOnly), Some(Errno::PERM));
        assert_eq!(set_own(Scheduling::InSight), None);
    }

    #[test]
    fn folder_watches_need_a_private_file_system() {
        let watch = |scheduling| {
            let bound = std::thread::spawn(move || {
                use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
                forbid(SocketAccess::None, scheduling).unwrap();
                let watcher = init(CreateFlags::empty()).unwrap();
                add_watch(&watcher, "/", WatchFlags::CREATE).err()
            });
            bound.join().unwrap()
        };
        assert_eq!(watch(Scheduling::OwnOnly), Some(Errno::PERM));
        assert_eq!(watch(Scheduling::InSight), None);
    }

    #[test]
    fn threads_can_still_be_started() {
        let bound = std::thread::spawn(|| {
            forbid(SocketAccess::None, Scheduling::OwnOnly).unwrap();
            std::thread::spawn(|| 7).join().unwrap()
        });
        assert_eq!(bound.join().unwrap(), 7);
    }
}
