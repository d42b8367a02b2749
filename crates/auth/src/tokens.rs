//! The token file: `token,user,uid,"group1,group2"`, one line each, as kube-apiserver reads it with `--token-auth-file`.
//!
//! Tokens are kept as SHA-256 digests only, so neither a memory dump of the table nor the time a lookup takes says anything about them.

use std::{
    collections::HashMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::{constant_time, digest};

use crate::User;

/// Far above any real file: what is larger is a mistake, such as a device or a disk image.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What is wrong with a token file. No variant carries text from the file: it could be a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("cannot read the token file {path}: {source}; check the path and that this user may read it")]
    Read { path: PathBuf, source: io::Error },
    #[error("the token file {path} is larger than 16 MiB; is it the right file?")]
    TooLarge { path: PathBuf },
    #[error("token file {path}, line {line}: {problem}")]
    Line { path: PathBuf, line: usize, problem: LineProblem },
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LineProblem {
    #[error("{0} columns found, at least 3 are needed: token,user,uid[,\"group1,group2\"]")]
    Columns(usize),
    #[error("the token is empty")]
    EmptyToken,
    #[error("the user name is empty")]
    EmptyUser,
    #[error("the token holds a character that cannot be sent in a header (visible ASCII only)")]
    BadToken,
    #[error("the same token as in line {0}; each token must belong to one user")]
    Duplicate(usize),
    #[error("a quote is opened and never closed, or stands in the middle of a column")]
    Quote,
    #[error("not valid UTF-8")]
    Encoding,
}

/// The users of a token file, by the digest of their token.
#[derive(Debug, Default)]
pub struct TokenTable {
    users: HashMap<Digest, Arc<User>>,
}

type Digest = [u8; 32];

impl TokenTable {
    pub fn read(path: &Path) -> Result<TokenTable, TokenFileError> {
        let failed = |source| TokenFileError::Read { path: path.to_owned(), source };
        let mut text = Vec::new();
        fs::File::open(path).map_err(failed)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(TokenFileError::TooLarge { path: path.to_owned() });
        }
        TokenTable::parse(&text).map_err(|(line, problem)| TokenFileError::Line {
            path: path.to_owned(),
            line,
            problem,
        })
    }

    /// The table of the text, or the first line that is wrong (counted from 1) and why.
    pub fn parse(text: &[u8]) -> Result<TokenTable, (usize, LineProblem)> {
        let text = std::str::from_utf8(text).map_err(|e| {
            (1 + text[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count(), LineProblem::Encoding)
        })?;
        let mut users = HashMap::new();
        let mut lines: HashMap<Digest, usize> = HashMap::new();
        for record in Records::of(text.strip_prefix('\u{feff}').unwrap_or(text)) {
            let (line, columns) = record?;
            let (token, user) = entry(&columns).map_err(|problem| (line, problem))?;
            if let Some(first) = lines.insert(token, line) {
                return Err((line, LineProblem::Duplicate(first)));
            }
            users.insert(token, Arc::new(user));
        }
        Ok(TokenTable { users })
    }

    pub fn len(&self) -> usize {
        self.users.len()
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub(crate) fn user_of(&self, token: &[u8]) -> Option<Arc<User>> {
        let asked = sha256(token);
        let (known, user) = self.users.get_key_value(&asked)?;
        constant_time::verify_slices_are_equal(known, &asked).ok()?;
        Some(Arc::clone(user))
    }
}

fn entry(columns: &[String]) -> Result<(Digest, User), LineProblem> {
    let [token, name, uid, rest @ ..] = columns else { return Err(LineProblem::Columns(columns.len())) };
    if token.is_empty() {
        return Err(LineProblem::EmptyToken);
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(LineProblem::BadToken);
    }
    if name.is_empty() {
        return Err(LineProblem::EmptyUser);
    }
    let groups = rest.first().map(String::as_str).unwrap_or("").split(',').map(str::trim).filter(|g| !g.is_empty());
    Ok((sha256(token.as_bytes()), User::authenticated(name, uid, groups.map(str::to_owned))))
}

fn sha256(bytes: &[u8]) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}

/// The records of a CSV text (RFC 4180, spaces around columns ignored), each with the line it starts on. Blank lines are skipped.
struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Records<'a> {
    fn of(text: &'a str) -> Self {
        Records { rest: text, line: 1 }
    }

    fn record(&mut self) -> Result<(usize, Vec<String>), (usize, LineProblem)> {
        let start = self.line;
        let mut columns = Vec::new();
        loop {
            let (column, end) = self.column().ok_or((start, LineProblem::Quote))?;
            columns.push(column);
            if end {
                return Ok((start, columns));
            }
        }
    }

    /// One column and whether it was the record's last; none when its quotes are wrong.
    fn column(&mut self) -> Option<(String, bool)> {
        let ahead = self.rest.trim_start_matches([' ', '\t']);
        if let Some(quoted) = ahead.strip_prefix('"') {
            let mut value = String::new();
            let mut rest = quoted;
            loop {
                let (text, after) = rest.split_once('"')?;
                value.push_str(text);
                match after.strip_prefix('"') {
                    Some(more) => {
                        value.push('"');
                        rest = more;
                    }
                    None => {
                        self.line += value.matches('\n').count();
                        self.rest = after;
                        let (blank, end) = self.until_separator();
                        return blank.trim().is_empty().then_some((value, end));
                    }
                }
            }
        }
        let (text, end) = self.until_separator();
        (!text.contains('"')).then(|| (text.trim().to_owned(), end))
    }

    fn until_separator(&mut self) -> (&'a str, bool) {
        let at = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (text, after) = self.rest.split_at(at);
        let end = !after.starts_with(',');
        self.line += usize::from(after.starts_with('\n'));
        self.rest = after.get(1..).unwrap_or("");
        (text, end)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(usize, Vec<String>), (usize, LineProblem)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (first, _) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            if !first.trim().is_empty() {
                return Some(self.record());
            }
            if self.rest.len() <= first.len() {
                return None;
            }
            self.rest = &self.rest[first.len() + 1..];
            self.line += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (usize, LineProblem) {
        TokenTable::parse(text.as_bytes()).map(|_| ()).unwrap_err()
    }

    #[test]
    fn columns_quotes_blank_lines_and_line_ends_are_read() {
        let text = "\u{feff}t1,alice,1\r\n\r\n\
                    t2,bob,2,\"dev,ops\"\n\
                    \"t3\", \"carol \"\"c\"\" \" ,3 , \"system:masters\" ,ignored\n\
                    t4,dave,4,";
        let table = TokenTable::parse(text.as_bytes()).unwrap();
        assert_eq!(table.len(), 4);
        assert_eq!(*table.user_of(b"t1").unwrap(), User::authenticated("alice", "1", []));
        assert_eq!(
            *table.user_of(b"t2").unwrap(),
            User::authenticated("bob", "2", ["dev".to_owned(), "ops".to_owned()])
        );
        assert_eq!(table.user_of(b"t2").unwrap().groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(table.user_of(b"t3").unwrap().name, "carol \"c\" ");
        assert!(table.user_of(b"t3").unwrap().is_in(crate::MASTERS));
        assert!(table.user_of(b"t4").unwrap().groups == ["system:authenticated"]);
        for wrong in ["", "t", "t11", "T1", "\"t3\""] {
            assert!(table.user_of(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, expected) in [
            ("t,u", (1, LineProblem::Columns(2))),
            ("# a comment\n", (1, LineProblem::Columns(1))),
            ("t,u,1\n\n,u,1", (3, LineProblem::EmptyToken)),
            ("t,,1", (1, LineProblem::EmptyUser)),
            ("t t,u,1", (1, LineProblem::BadToken)),
            ("t\u{e9},u,1", (1, LineProblem::BadToken)),
            ("a,u,1\nb,u,1\n\na,v,2", (4, LineProblem::Duplicate(1))),
            ("a,u,1\nb,u,1,\"x", (2, LineProblem::Quote)),
            ("a,u\"v\",1", (1, LineProblem::Quote)),
            ("a,\"u\"v,1", (1, LineProblem::Quote)),
            ("a,\"u\nv\",1\nb,c", (3, LineProblem::Columns(2))),
        ] {
            assert_eq!(problem(text), expected, "{text:?}");
        }
        assert_eq!(TokenTable::parse(b"a,b,c\n\xff,b,c").map(|_| ()).unwrap_err(), (2, LineProblem::Encoding));
    }

    #[test]
    fn an_empty_file_has_no_users() {
        for text in ["", "\n", "  \r\n\n"] {
            assert!(TokenTable::parse(text.as_bytes()).unwrap().is_empty());
        }
    }

    #[test]
    fn errors_name_the_file_and_line_and_hold_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token.csv");
        fs::write(&path, "hush-hush,alice\n").unwrap();
        let error = TokenTable::read(&path).map(|_| ()).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("token.csv, line 1: 2 columns"), "{text}");
        assert!(!text.contains("hush"), "{text}");
        let missing = TokenTable::read(&dir.path().join("none.csv")).map(|_| ()).unwrap_err().to_string();
        assert!(missing.contains("none.csv") && missing.contains("check the path"), "{missing}");
    }

    proptest::proptest! {
        /// What a spreadsheet would write is read back, whatever is in the columns.
        #[test]
        fn quoted_columns_round_trip(name in "[^\\x00]{1,20}", uid in ".{0,8}", group in "[a-z:\"]{1,8}") {
            let quote = |s: &str| format!("\"{}\"", s.replace('"', "\"\""));
            let text = format!("tok,{},{},{}\n", quote(&name), quote(&uid), quote(&group));
            let table = TokenTable::parse(text.as_bytes()).unwrap();
            let user = table.user_of(b"tok").unwrap();
            proptest::prop_assert_eq!(&user.name, &name);
            proptest::prop_assert_eq!(&user.uid, &uid);
            proptest::prop_assert_eq!(&user.groups[0], &group);
        }

        #[test]
        fn garbage_never_panics(text in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) { // B-1
            let _ = TokenTable::parse(&text);
        }
    }
}
