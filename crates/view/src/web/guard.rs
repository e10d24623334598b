//! Access control: only the browser that opened the login link sees the page.
//! A link has 128 random bits and works once; it is exchanged for a cookie of 128 more, which scripts cannot read and
//! other sites cannot send. The `Host` must be ours, so a name that an attacker points at loopback does not work. If a
//! browser sends an `Origin`, it must be ours too.

use std::collections::VecDeque;

use http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;

/// The largest number of sessions. A new one evicts the oldest.
const MAX_SESSIONS: usize = 16;

/// The largest number of unused links. A new one evicts the oldest.
const MAX_LINKS: usize = 16;

const COOKIE: &str = "watchkeeper_session";

#[derive(Debug)]
pub(super) struct Guard {
    port: u16,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    links: VecDeque<String>,
    sessions: VecDeque<String>,
}

impl Guard {
    /// For a page on this port.
    pub(super) fn new(port: u16) -> std::io::Result<Self> {
        // Fails early if the system has no random numbers.
        secret()?;
        Ok(Self {
            port,
            state: Mutex::default(),
        })
    }

    pub(super) fn new_link(&self) -> std::io::Result<String> {
        let link = secret()?;
        push(&mut self.state.lock().links, link.clone(), MAX_LINKS);
        Ok(format!("http://127.0.0.1:{}/open/{link}", self.port))
    }

    /// Consumes a link and returns the session cookie.
    pub(super) fn begin_session(&self, link: &str) -> Option<HeaderValue> {
        let mut state = self.state.lock();
        let known = state.links.iter().position(|known| known == link)?;
        let session = secret().ok()?;
        state.links.remove(known);
        push(&mut state.sessions, session.clone(), MAX_SESSIONS);
        // Cookies are not separated by port, so the name contains it.
        let cookie = format!(
            "{COOKIE}_{}={session}; HttpOnly; SameSite=Strict; Path=/",
            self.port
        );
        HeaderValue::try_from(cookie).ok()
    }

    pub(super) fn has_session(&self, headers: &HeaderMap) -> bool {
        let state = self.state.lock();
        let name = format!("{COOKIE}_{}", self.port);
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'));
        let mut values = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        values.any(|(found, value)| found == name && state.sessions.iter().any(|known| known == value))
    }

    /// Accepts changes only from our own page: browsers send an `Origin` with every POST, and other sites cannot send
    /// JSON without a preflight request.
    pub(super) fn check_write(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        if !headers.contains_key(header::ORIGIN) {
            return Err("requests that change something must come from this page");
        }
        let kind = headers.get(header::CONTENT_TYPE);
        match kind.is_some_and(|kind| kind == "application/json") {
            true => Ok(()),
            false => Err("requests that change something must be application/json"),
        }
    }

    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let text = |name| {
            headers
                .get(name)
                .map(|value: &HeaderValue| value.to_str().unwrap_or("?"))
        };
        let ours = [
            format!("127.0.0.1:{}", self.port),
            format!("localhost:{}", self.port),
        ];
        if !text(header::HOST).is_some_and(|host| ours.iter().any(|known| known == host)) {
            return Err("this page answers to 127.0.0.1 and localhost only");
        }
        match text(header::ORIGIN) {
            Some(origin)
                if !ours
                    .iter()
                    .any(|known| origin.strip_prefix("http://") == Some(known)) =>
            {
                Err("requests from other origins are refused")
            }
            _ => Ok(()),
        }
    }
}

fn push(queue: &mut VecDeque<String>, secret: String, limit: usize) {
    if queue.len() == limit {
        queue.pop_front();
    }
    queue.push_back(secret);
}

fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()));
        pairs.collect()
    }

    #[test]
    fn a_link_works_once() {
        let guard = Guard::new(7).unwrap();
        let link = guard.new_link().unwrap();
        let secret = link.strip_prefix("http://127.0.0.1:7/open/").unwrap();
        let cookie = guard.begin_session(secret).unwrap();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        assert!(guard.has_session(&headers(&[(header::COOKIE, &format!("a=b; {cookie}"))])));
        assert!(guard.begin_session(secret).is_none());
        assert!(!guard.has_session(&headers(&[(header::COOKIE, "watchkeeper_session_7=guess")])));
        assert!(!guard.has_session(&HeaderMap::new()));
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let guard = Guard::new(7).unwrap();
        let check = |pairs: &[_]| guard.check_origin(&headers(pairs)).is_ok();
        assert!(check(&[(header::HOST, "127.0.0.1:7")]));
        assert!(check(&[
            (header::HOST, "localhost:7"),
            (header::ORIGIN, "http://localhost:7")
        ]));
        assert!(!check(&[]));
        assert!(!check(&[(header::HOST, "evil.example:7")]));
        assert!(!check(&[(header::HOST, "127.0.0.1:8")]));
        assert!(!check(&[
            (header::HOST, "localhost:7"),
            (header::ORIGIN, "http://evil.example")
        ]));
        assert!(!check(&[(header::HOST, "localhost:7"), (header::ORIGIN, "null")]));
    }

    #[test]
    fn only_the_page_itself_may_change_something() {
        let guard = Guard::new(7).unwrap();
        let check = |pairs: &[_]| guard.check_write(&headers(pairs)).is_ok();
        let (origin, json) = (
            (header::ORIGIN, "http://127.0.0.1:7"),
            (header::CONTENT_TYPE, "application/json"),
        );
        assert!(check(&[origin.clone(), json.clone()]));
        assert!(!check(&[json]), "a form or a link has no origin of ours");
        assert!(!check(std::slice::from_ref(&origin)));
        assert!(!check(&[origin, (header::CONTENT_TYPE, "text/plain")]));
    }

    #[test]
    fn old_sessions_make_room() {
        let guard = Guard::new(7).unwrap();
        let cookies: Vec<_> = (0..=MAX_SESSIONS)
            .map(|_| {
                let link = guard.new_link().unwrap();
                guard.begin_session(link.rsplit('/').next().unwrap()).unwrap()
            })
            .collect();
        let has =
            |cookie: &HeaderValue| guard.has_session(&headers(&[(header::COOKIE, cookie.to_str().unwrap())]));
        assert!(!has(&cookies[0]));
        assert!(has(&cookies[MAX_SESSIONS]));
    }
}
