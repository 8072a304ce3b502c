//! A command that must not talk to anybody cannot make sockets.
//!
//! Landlock knows TCP only: datagrams and sockets with a path, through which an agent of keys or a
//! service manager can be asked for anything, pass it by. So the system calls that make sockets are
//! refused. Pairs of connected sockets, which lead nowhere else, are not.

use std::io::{self, Cursor};

use seccompiler::{TargetArch, apply_filter, compile_from_json};

/// What is refused, and with which error: access denied.
const FILTER: &str = r#"{
    "silent": {
        "mismatch_action": "allow",
        "match_action": {"errno": 13},
        "filter": [{"syscall": "socket"}, {"syscall": "io_uring_setup"}]
    }
}"#;

/// Takes from the calling thread, and from whatever it starts, the way to make sockets. A processor
/// that this filter does not know is left to Landlock alone.
pub(super) fn forbid() -> io::Result<()> {
    let Ok(processor) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(());
    };
    let filters = compile_from_json(Cursor::new(FILTER), processor).map_err(io::Error::other)?;
    filters
        .values()
        .try_for_each(|filter| apply_filter(filter).map_err(io::Error::other))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn no_socket_can_be_made_but_a_pair() {
        // Only the thread that calls it is bound.
        let bound = std::thread::spawn(|| {
            forbid().unwrap();
            let refused = UdpSocket::bind("127.0.0.1:0").map(drop);
            (refused.unwrap_err().kind(), UnixStream::pair().is_ok())
        });
        assert_eq!(
            bound.join().unwrap(),
            (io::ErrorKind::PermissionDenied, true)
        );
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
    }
}
