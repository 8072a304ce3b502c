//! Where a machine keeps its programs: the same for every user, and nobody's secrets.

/// Folders that every command may read. What is secret in them is so by its file permissions.
pub(super) const READABLE: [&str; 18] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/gnu/store",
    "/snap",
    "/sys",
    "/var/lib/gems",
    "/var/lib/ghc",
    "/var/lib/texmf",
    "/run/current-system",
];

/// Files below `/run` that say how names are resolved and where graphics drivers are.
pub(super) const READABLE_FILES: [&str; 5] = [
    "/run/opengl-driver",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
];

/// Folders in which everybody leaves things, sockets of services among them.
pub(super) const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
