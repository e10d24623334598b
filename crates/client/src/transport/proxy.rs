//! Opens a tunnel through a proxy: `CONNECT` for HTTP proxies, RFC 1928 and 1929 for SOCKS 5.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connector::Io;
use crate::config::ProxyLogin;

/// The limit on a proxy's response to `CONNECT`.
const MAX_ANSWER: usize = 8 << 10;

/// The address types of SOCKS 5.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Requests a tunnel from an HTTP proxy.
pub(super) async fn connect(io: &mut dyn Io, address: &str, login: Option<&ProxyLogin>) -> io::Result<()> {
    let mut request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n").into_bytes();
    if let Some(ProxyLogin::Header(value)) = login {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    io.write_all(&request).await?;
    let answer = read_head(io).await?;
    let line = answer.lines().next().unwrap_or_default();
    // `HTTP/1.1 200 Connection established`: any 2xx opens the tunnel.
    match line.split_ascii_whitespace().nth(1) {
        Some(status) if status.len() == 3 && status.starts_with('2') => Ok(()),
        _ => Err(refused(format!("it answered {line:?}"))),
    }
}

/// Reads up to the empty line and no further: the following bytes belong to the server.
async fn read_head(io: &mut dyn Io) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_ANSWER {
            return Err(refused("its answer is too long".to_owned()));
        }
        head.push(io.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Requests a connection from a SOCKS 5 proxy, which resolves the name.
pub(super) async fn socks5(
    io: &mut dyn Io,
    host: &str,
    port: u16,
    login: Option<&ProxyLogin>,
) -> io::Result<()> {
    const VERSION: u8 = 5;
    const NO_LOGIN: u8 = 0;
    const WITH_LOGIN: u8 = 2;
    let login = match login {
        Some(ProxyLogin::Socks { username, password }) => Some((username.as_str(), password.expose())),
        _ => None,
    };
    let method = if login.is_some() { WITH_LOGIN } else { NO_LOGIN };
    io.write_all(&[VERSION, 1, method]).await?;
    let mut chosen = [0; 2];
    io.read_exact(&mut chosen).await?;
    if chosen != [VERSION, method] {
        return Err(refused("it requires another authentication method".to_owned()));
    }
    if let Some((username, password)) = login {
        socks5_login(io, username, password).await?;
    }
    // The `CONNECT` command.
    let mut request = vec![VERSION, 1, 0];
    put_address(&mut request, host)?;
    request.extend_from_slice(&port.to_be_bytes());
    io.write_all(&request).await?;
    socks5_answer(io).await
}

async fn socks5_login(io: &mut dyn Io, username: &str, password: &str) -> io::Result<()> {
    let mut request = vec![1];
    put_short_text(&mut request, username)?;
    put_short_text(&mut request, password)?;
    io.write_all(&request).await?;
    let mut answer = [0; 2];
    io.read_exact(&mut answer).await?;
    match answer[1] {
        0 => Ok(()),
        _ => Err(refused("it does not accept user and password".to_owned())),
    }
}

/// Reads the result code and the bound address, which is ignored.
async fn socks5_answer(io: &mut dyn Io) -> io::Result<()> {
    let mut head = [0; 4];
    io.read_exact(&mut head).await?;
    if head[1] != 0 {
        return Err(refused(format!("it answered with code {}", head[1])));
    }
    let address_len = match head[3] {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(io.read_u8().await?),
        kind => return Err(refused(format!("it answered with address kind {kind}"))),
    };
    let mut address_and_port = vec![0; address_len + 2];
    io.read_exact(&mut address_and_port).await?;
    Ok(())
}

fn put_address(out: &mut Vec<u8>, host: &str) -> io::Result<()> {
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            out.push(IPV4);
            out.extend_from_slice(&address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            out.push(IPV6);
            out.extend_from_slice(&address.octets());
        }
        Err(_) => {
            out.push(NAME);
            put_short_text(out, host)?;
        }
    }
    Ok(())
}

fn put_short_text(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let len = u8::try_from(text.len()).map_err(|_| refused("a name is longer than 255 bytes".to_owned()))?;
    out.push(len);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn refused(reason: String) -> io::Error {
    io::Error::other(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    /// Plays the proxy: its input must be `expected`; it answers and relays nothing.
    async fn check(
        script: &[(&[u8], &[u8])],
        ask: impl AsyncFnOnce(&mut dyn Io) -> io::Result<()>,
        result: Result<(), &str>,
    ) {
        let (mut ours, mut theirs) = tokio::io::duplex(1024);
        let proxy = async {
            for (expected, answer) in script {
                let mut read = vec![0; expected.len()];
                theirs.read_exact(&mut read).await.unwrap();
                assert_eq!(String::from_utf8_lossy(&read), String::from_utf8_lossy(expected));
                theirs.write_all(answer).await.unwrap();
            }
        };
        let (asked, ()) = tokio::join!(ask(&mut ours), proxy);
        assert_eq!(
            asked.map_err(|error| error.to_string()),
            result.map_err(str::to_owned)
        );
    }

    #[tokio::test]
    async fn http_proxies_open_a_tunnel() {
        let request =
            b"CONNECT kube:6443 HTTP/1.1\r\nHost: kube:6443\r\nProxy-Authorization: Basic eA==\r\n\r\n";
        let login = ProxyLogin::Header(http::HeaderValue::from_static("Basic eA=="));
        check(
            &[(request, b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n")],
            async |io: &mut dyn Io| connect(io, "kube:6443", Some(&login)).await,
            Ok(()),
        )
        .await;
        check(
            &[(
                b"CONNECT kube:6443 HTTP/1.1\r\nHost: kube:6443\r\n\r\n",
                b"HTTP/1.1 407 Who are you\r\n\r\n",
            )],
            async |io: &mut dyn Io| connect(io, "kube:6443", None).await,
            Err("it answered \"HTTP/1.1 407 Who are you\""),
        )
        .await;
    }

    #[tokio::test]
    async fn socks_proxies_connect_by_name() {
        let login = ProxyLogin::Socks {
            username: "u".to_owned(),
            password: Secret::new("p"),
        };
        check(
            &[
                (&[5, 1, 2], &[5, 2]),
                (&[1, 1, b'u', 1, b'p'], &[1, 0]),
                (
                    b"\x05\x01\x00\x03\x04kube\x19\x2b",
                    &[5, 0, 0, 1, 127, 0, 0, 1, 0, 1],
                ),
            ],
            async |io: &mut dyn Io| socks5(io, "kube", 6443, Some(&login)).await,
            Ok(()),
        )
        .await;
        check(
            &[
                (&[5, 1, 0], &[5, 0]),
                (b"\x05\x01\x00\x03\x04kube\x19\x2b", &[5, 5, 0, 1]),
            ],
            async |io: &mut dyn Io| socks5(io, "kube", 6443, None).await,
            Err("it answered with code 5"),
        )
        .await;
    }
}
