//! Paths of the system's programs: the same for every user and without secrets.

/// Folders that every command may read. File permissions protect the secrets in them.
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

/// Files below `/run` for name resolution and graphics drivers.
pub(super) const READABLE_FILES: [&str; 5] = [
    "/run/opengl-driver",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
];

/// Folders shared by all users, which also contain sockets of services.
pub(super) const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];
