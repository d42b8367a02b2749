//! `muster token`: short-lived tokens for people, and the keys that sign every token.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use auth::{Issuer, IssuerOptions, KeyError, MASTERS, SigningKeys, User};

use crate::{
    cli::{Access, Data, Signing, Token},
    paths::DataDir,
    problem::{Kind, Problem},
    say,
};

const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

pub fn run(command: Token) -> Result<(), Problem> {
    match command {
        Token::Create { data, signing, user, group, ttl } => create(&file(&data, &signing)?, user, group, ttl),
        Token::Keys { data, signing } => {
            let keys = read(&file(&data, &signing)?, &[])?;
            say(&listing(&keys))
        }
        Token::Rotate { data, signing } => {
            let path = file(&data, &signing)?;
            read(&path, &[])?;
            let old = fs::read_to_string(&path).map_err(|e| unusable(&path, e))?;
            let new = SigningKeys::generate().map_err(|e| unusable(&path, e))?;
            replace(&path, &format!("{new}{old}"))?;
            say(&format!("A running server takes it up within seconds.\n{}", listing(&read(&path, &[])?)))
        }
        Token::Prune { data, signing } => {
            let path = file(&data, &signing)?;
            let keys = read(&path, &[])?;
            let text = fs::read_to_string(&path).map_err(|e| unusable(&path, e))?;
            let kept = first_private(&text).ok_or_else(|| unusable(&path, KeyError::NoPrivate))?;
            replace(&path, kept)?;
            let forgotten = keys.ids().count().saturating_sub(1);
            say(&format!(
                "{forgotten} older keys are forgotten; a running server refuses their tokens within seconds.\n"
            ))
        }
    }
}

fn create(path: &Path, name: String, mut groups: Vec<String>, ttl: Duration) -> Result<(), Problem> {
    let wrong = |why: &str| Problem::new(Kind::Usage, "no token was made", why);
    if ttl > LONGEST || ttl.is_zero() {
        return Err(wrong("it must end, after 24 hours at the latest").next("choose a shorter --ttl"));
    }
    if name.is_empty() || auth::split_service_account(&name).is_some() {
        return Err(wrong("it is for people").next("for a service account: kubectl create token NAME"));
    }
    if name == auth::ADMIN && groups.is_empty() {
        groups.push(MASTERS.to_owned());
    }
    say(&format!("{}\n", issue(path, name, groups, ttl)?))
}

/// A token of the administrator, made with the key of the API server in `dir`.
pub fn for_administrator(dir: Option<PathBuf>, ttl: Duration) -> Result<String, Problem> {
    let path = DataDir::choose(dir)?.signing_key();
    issue(&path, auth::ADMIN.to_owned(), vec![MASTERS.to_owned()], ttl)
}

fn issue(path: &Path, name: String, groups: Vec<String>, ttl: Duration) -> Result<String, Problem> {
    let keys = read(path, &[])?;
    let issuer = Issuer::new(IssuerOptions { issuer: String::new(), audiences: Vec::new(), keys });
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let user = User { name, groups, ..User::default() };
    let id = format!("{:x}", now.as_nanos());
    issuer.issue_for_user(&user, &id, seconds(now), seconds(ttl)).map_err(|e| unusable(path, e))
}

fn file(data: &Data, signing: &Signing) -> Result<PathBuf, Problem> {
    let dir = DataDir::choose(data.data_dir.clone())?;
    Ok(signing_file(signing, &dir))
}

pub fn signing_file(signing: &Signing, dir: &DataDir) -> PathBuf {
    signing.service_account_signing_key_file.clone().unwrap_or_else(|| dir.signing_key())
}

/// The keys the flags name; our own file is made when it is not there.
pub fn keys(access: &Access, dir: &DataDir) -> Result<SigningKeys, Problem> {
    let path = signing_file(&access.signing, dir);
    if access.signing.service_account_signing_key_file.is_none() && !path.exists() {
        let text = SigningKeys::generate().map_err(|e| unusable(&path, e))?;
        replace(&path, &text)?;
    }
    read(&path, &access.service_account_key_file)
}

/// Whoever can read the signing key can be anybody: a file that others can read is refused.
fn read(path: &Path, others: &[PathBuf]) -> Result<SigningKeys, Problem> {
    let mode = fs::metadata(path).map_err(|e| unusable(path, e))?.permissions().mode();
    if mode & 0o077 != 0 {
        let why = format!("others can read it (mode {:o})", mode & 0o777);
        return Err(
            unusable(path, why).next("make it 0600, and if others may have read it: muster token rotate, then prune")
        );
    }
    let bytes = |path: &Path| fs::read(path).map_err(|e| unusable(path, e));
    let others = others.iter().map(|path| bytes(path)).collect::<Result<Vec<_>, _>>()?;
    SigningKeys::parse(&bytes(path)?, &others).map_err(|e| unusable(path, e))
}

fn replace(path: &Path, text: &str) -> Result<(), Problem> {
    pki::write_private(path, text.as_bytes()).map_err(|e| unusable(path, e))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Problem {
    Problem::new(Kind::Usage, format!("the signing keys of {} cannot be used", path.display()), why)
}

/// The first private key in the text, with its frame.
fn first_private(text: &str) -> Option<&str> {
    const END: &str = "PRIVATE KEY-----\n";
    let start = text
        .match_indices("-----BEGIN ")
        .find(|(at, _)| text[*at..].lines().next().is_some_and(|line| line.ends_with("PRIVATE KEY-----")))?;
    let body = text[start.0..].find("-----END ")? + start.0;
    let end = text[body..].find(END)? + body + END.len();
    Some(&text[start.0..end])
}

fn listing(keys: &SigningKeys) -> String {
    let line =
        |(n, id): (usize, &str)| format!("key {id}  {}\n", if n == 0 { "signs" } else { "verifies older tokens" });
    keys.ids().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signing_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        replace(&path, &SigningKeys::generate().unwrap()).unwrap();
        assert!(read(&path, &[]).is_ok());
        for broad in [0o640, 0o604] {
            fs::set_permissions(&path, fs::Permissions::from_mode(broad)).unwrap();
            assert!(read(&path, &[]).unwrap_err().to_string().contains("others can read it"), "{broad:o}");
        }
    }

    #[test]
    fn the_first_private_key_is_cut_out_whole() {
        let (one, two) = (SigningKeys::generate().unwrap(), SigningKeys::generate().unwrap());
        assert_eq!(first_private(&format!("{one}{two}")), Some(one.as_str()));
        assert_eq!(first_private("-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n"), None);
        assert_eq!(first_private(""), None);
    }
}
