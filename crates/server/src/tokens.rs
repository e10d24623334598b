//! Bearer tokens and their users.
//!
//! Only hashes of tokens are kept. A token is looked up by its hash, so neither the response time nor a core dump
//! reveals how close a guess was.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use watchkeeper_registry::user::{MASTERS, User};

/// The limit on the size of a token file, which is read into memory.
const MAX_TOKEN_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The bytes of randomness in a generated token.
const TOKEN_BYTES: usize = 32;

/// A secret text; it prints as `[redacted]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Generates a random token.
    pub fn random() -> Self {
        // Directly from the operating system: the generator of the TLS library takes many milliseconds to start,
        // which a server without a port should not spend.
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).expect("the system has a source of randomness");
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The text, for sending it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Tokens and their users.
#[derive(Clone, Default)]
pub struct Tokens {
    users: HashMap<[u8; 32], User>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.users.values().map(|user| &user.name);
        f.debug_set().entries(names).finish()
    }
}

/// The reason a token file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("cannot read token file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The file exceeds the limit.
    #[error("token file {} has {bytes} bytes, more than {MAX_TOKEN_FILE_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A line without token, user and uid.
    #[error("line {line}: {problem}")]
    Line {
        /// From 1.
        line: usize,
        /// The error; never the token itself.
        problem: &'static str,
    },
}

impl Tokens {
    /// Adds a token, replacing the user of an existing one.
    pub fn add(&mut self, token: &Token, user: User) {
        self.users.insert(hash(token.reveal()), user);
    }

    /// Adds a token for the administrator.
    pub fn add_admin(&mut self, token: &Token) {
        let user = User::authenticated("admin", "admin", vec![MASTERS.to_owned()]);
        self.add(token, user);
    }

    /// Adds the tokens of a file in kube-apiserver's format: `token,user,uid,"group1,group2"`, the groups optional.
    pub fn add_file(&mut self, path: &Path) -> Result<(), TokenFileError> {
        let read_error = |source| TokenFileError::Read {
            path: path.to_owned(),
            source,
        };
        let bytes = std::fs::metadata(path).map_err(read_error)?.len();
        if bytes > MAX_TOKEN_FILE_BYTES {
            let path = path.to_owned();
            return Err(TokenFileError::TooLarge { path, bytes });
        }
        self.add_csv(&std::fs::read_to_string(path).map_err(read_error)?)
    }

    /// Adds the tokens of a text in that format.
    pub fn add_csv(&mut self, text: &str) -> Result<(), TokenFileError> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let problem = |problem| TokenFileError::Line {
                line: index + 1,
                problem,
            };
            let (token, user) = parse_line(line).map_err(problem)?;
            self.add(&token, user);
        }
        Ok(())
    }

    /// The user of a token.
    pub fn user(&self, token: &str) -> Option<&User> {
        self.users.get(&hash(token))
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

fn hash(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn parse_line(line: &str) -> Result<(Token, User), &'static str> {
    let fields = split_csv(line)?;
    let [token, name, uid, groups @ ..] = fields.as_slice() else {
        return Err("needs at least a token, a user and a uid");
    };
    if token.is_empty() || name.is_empty() {
        return Err("token and user must not be empty");
    }
    let groups = groups.first().map(String::as_str).unwrap_or_default();
    let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
    let user = User::authenticated(name, uid, groups.map(str::to_owned).collect());
    Ok((Token::new(token.clone()), user))
}

/// The fields of a line; a quoted field may contain commas and doubled quotes.
fn split_csv(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        let field = fields.last_mut().expect("there is always a field");
        match char {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            char => field.push(char),
        }
    }
    if quoted {
        return Err("a quote is not closed");
    }
    Ok(fields.iter().map(|field| field.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(csv: &str, token: &str, expected: &str) {
        let mut tokens = Tokens::default();
        let printed = match tokens.add_csv(csv) {
            Ok(()) => match tokens.user(token) {
                Some(user) => format!("{} {} {}", user.name, user.uid, user.groups.join(" ")),
                None => "nobody".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        assert_eq!(printed, expected, "{csv:?}");
    }

    #[test]
    fn token_files_name_users_and_groups() {
        check("t,bob,bob-uid", "t", "bob bob-uid system:authenticated");
        check(
            "t,alice,alice-uid,\"dev,ops\"",
            "t",
            "alice alice-uid dev ops system:authenticated",
        );
        check(
            "t,alice,alice-uid,dev",
            "t",
            "alice alice-uid dev system:authenticated",
        );
        check("# made by hand\n\nt,bob,u\n", "t", "bob u system:authenticated");
        check("t,bob,u", "T", "nobody");
    }

    #[test]
    fn bad_lines_are_named_without_their_secret() {
        check(
            "a,b,c\nsecret,bob",
            "",
            "line 2: needs at least a token, a user and a uid",
        );
        check(",bob,u", "", "line 1: token and user must not be empty");
        check("t,\"bob,u", "", "line 1: a quote is not closed");
    }

    #[test]
    fn tokens_do_not_print() {
        assert_eq!(format!("{:?}", Token::new("secret")), "[redacted]");
        assert_ne!(Token::random(), Token::random());
    }
}
