//! The address of a server on the command line.

use std::net::{SocketAddr, ToSocketAddrs as _};

/// `127.0.0.1:6443`, `localhost:0`, or `:6443` on loopback: other interfaces must be named.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let loopback = match text.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let found = loopback.to_socket_addrs().map_err(|_| {
        "name an address and a port, as in 127.0.0.1:6443, localhost:0 or 0.0.0.0:6443".to_owned()
    })?;
    // A name may stand for an address of each family; clients find the older one everywhere.
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found
        .first()
        .copied()
        .ok_or_else(|| format!("{text:?} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback() {
        let check = |text, expected: &str| assert_eq!(address(text).unwrap().to_string(), expected);
        check(":6443", "127.0.0.1:6443");
        check("localhost:0", "127.0.0.1:0");
        check("[::1]:80", "[::1]:80");
        check("0.0.0.0:80", "0.0.0.0:80");
        assert!(address("6443").unwrap_err().contains("localhost:0"));
    }
}
