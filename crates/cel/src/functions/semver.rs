//! Semantic versions, and the comparisons they share with quantities.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::eval::Context;
use crate::value::{Evaluated, Val, fail, no_such_overload};

#[derive(Debug)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl Semver {
    fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".into());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else { return Err("No Major.Minor.Patch elements found".into()) };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [number("major", major)?, number("minor", minor)?, number("patch", patch)?];
        let mut identifiers = Vec::new();
        for part in prerelease.iter().flat_map(|prerelease| prerelease.split('.')) {
            identifiers.push(identifier(part)?);
        }
        for part in build.iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".into());
            }
            if !is_word(part) {
                return Err(format!("Invalid character(s) found in build meta data \"{part}\""));
            }
        }
        Ok(Semver { numbers, prerelease: identifiers })
    }

    /// Also takes `v1.02`: a leading v, leading zeros, missing numbers.
    fn parse_normalized(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_string).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let trimmed = part.trim_start_matches('0');
            let bare = !trimmed.starts_with(|c: char| c.is_ascii_digit());
            *part = format!("{}{trimmed}", if bare { "0" } else { "" });
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".into());
            }
            parts.resize(3, "0".into());
        }
        Semver::parse(&parts.join("."))
    }

    /// Build metadata does not count; a version comes after its prereleases.
    pub fn precedence(&self, other: &Semver) -> Ordering {
        let released = |version: &Semver| version.prerelease.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then(released(self).cmp(&released(other)))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
    }
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number \"{text}\""));
    }
    if text.len() > 1 && text.starts_with('0') {
        let name = format!("{}{}", name[..1].to_ascii_uppercase(), &name[1..]);
        return Err(format!("{name} number must not contain leading zeroes \"{text}\""));
    }
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing \"{text}\": {why}"))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".into());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match is_word(text) {
            true => Ok(Identifier::Word(text.into())),
            false => Err(format!("Invalid character(s) found in prerelease \"{text}\"")),
        };
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("Numeric PreRelease version must not contain leading zeroes \"{text}\""));
    }
    text.parse()
        .map(Identifier::Number)
        .map_err(|_| format!("strconv.ParseUint: parsing \"{text}\": value out of range"))
}

fn of<'v>(value: &'v Val) -> Evaluated<&'v Semver> {
    match value {
        Val::Semver(version) => Ok(version),
        _ => no_such_overload(),
    }
}

fn parse(args: &[Val]) -> Evaluated<Result<Semver, String>> {
    match args {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => Ok(Semver::parse(text)),
        [Val::String(text), Val::Bool(true)] => Ok(Semver::parse_normalized(text)),
        _ => no_such_overload(),
    }
}

pub(super) fn semver<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    parse(args)?.or_else(fail).map(|version| Val::Semver(Rc::new(version)))
}

pub(super) fn is_semver<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(parse(args)?.is_ok()))
}

pub(super) fn major<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Int(of(&args[0])?.numbers[0] as i64))
}

pub(super) fn minor<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Int(of(&args[0])?.numbers[1] as i64))
}

pub(super) fn patch<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Int(of(&args[0])?.numbers[2] as i64))
}

fn order(args: &[Val]) -> Evaluated<Ordering> {
    match (&args[0], &args[1]) {
        (Val::Semver(one), Val::Semver(two)) => Ok(one.precedence(two)),
        (Val::Quantity(one), Val::Quantity(two)) => Ok(one.order(two)),
        _ => no_such_overload(),
    }
}

pub(super) fn is_greater<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(order(args)?.is_gt()))
}

pub(super) fn is_less<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(order(args)?.is_lt()))
}

pub(super) fn compare_to<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Int(order(args)? as i64))
}
