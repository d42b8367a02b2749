//! The session's cookie: no script reads it, no other site's page sends it, under TLS no other host can set it.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue};

use super::table::LONGEST;
use super::token::Token;

fn name(sealed: bool) -> &'static str {
    if sealed { "__Host-muster_session" } else { "muster_session" }
}

/// Its value. Two of the same name mean that somebody else has set one: then none counts.
pub(crate) fn find(headers: &HeaderMap, sealed: bool) -> Option<&str> {
    let mut found = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(key, _)| *key == name(sealed))
        .map(|(_, value)| value);
    match (found.next(), found.next()) {
        (Some(value), None) if !value.is_empty() && value.len() <= 64 => Some(value),
        _ => None,
    }
}

fn cookie(value: &str, seconds: u64, sealed: bool) -> Option<HeaderValue> {
    let secure = if sealed { "; Secure" } else { "" };
    let text = format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", name(sealed));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Sets it.
pub(crate) fn set(token: &Token, sealed: bool) -> Option<HeaderValue> {
    cookie(token.reveal(), LONGEST.as_secs(), sealed)
}

/// Takes it back.
pub(crate) fn clear(sealed: bool) -> Option<HeaderValue> {
    cookie("", 0, sealed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_else_is_in_the_header_the_value_is_found_or_nothing(
            before in "[ -:<-~]{0,30}", value in "[A-Za-z0-9_-]{1,64}", after in "[ -:<-~]{0,30}",
        ) {
            prop_assume!(!before.contains("muster_session") && !after.contains("muster_session"));
            let found = headers(&[&format!("{before};muster_session={value};{after}")]);
            prop_assert_eq!(find(&found, false), Some(value.as_str()));
        }

        #[test]
        fn no_header_makes_the_reader_panic(text in "[ -~]{0,80}") {
            let _ = find(&headers(&[&text]), false);
        }
    }

    fn headers(cookies: &[&str]) -> HeaderMap {
        cookies.iter().map(|value| (COOKIE, HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn one_cookie_of_the_right_name_counts_and_two_do_not() {
        assert_eq!(find(&headers(&["a=b; muster_session=x; c=d"]), false), Some("x"));
        assert_eq!(find(&headers(&["muster_session=x"]), true), None, "under TLS only __Host-");
        assert_eq!(find(&headers(&["__Host-muster_session=x"]), true), Some("x"));
        assert_eq!(find(&headers(&["muster_session=x; muster_session=y"]), false), None);
        assert_eq!(find(&headers(&["muster_session=x", "muster_session=x"]), false), None);
        assert_eq!(find(&headers(&["muster_session="]), false), None);
        assert_eq!(find(&headers(&[&format!("muster_session={}", "x".repeat(65))]), false), None);
        assert_eq!(find(&headers(&[]), false), None);
    }

    #[test]
    fn it_is_set_with_everything_that_protects_it() {
        let token = Token::new().unwrap();
        let plain = set(&token, false).unwrap().to_str().unwrap().to_owned();
        for part in ["muster_session=", "Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=86400"] {
            assert!(plain.contains(part), "{plain}");
        }
        let sealed = set(&token, true).unwrap().to_str().unwrap().to_owned();
        assert!(sealed.starts_with("__Host-muster_session=") && sealed.ends_with("; Secure"), "{sealed}");
        assert!(clear(true).unwrap().to_str().unwrap().contains("Max-Age=0"));
    }
}
