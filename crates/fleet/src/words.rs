//! What went wrong with a member, in words that can be shown: one line, not long, nothing in it that steers a terminal.

use crate::CallError;

/// The reason of a failed call, for people. What a member says is not trusted to be printable.
pub fn words(error: &kube::Error) -> String {
    if let Some(ours) = CallError::of(error) {
        return ours.to_string();
    }
    match error {
        kube::Error::Api(status) => readable(&format!("{} ({})", status.message, status.code)),
        other => {
            // The last cause says it best: "connection refused", "invalid peer certificate".
            let mut cause: &dyn std::error::Error = other;
            while let Some(next) = cause.source() {
                cause = next;
            }
            // How a client says that nobody took its connection.
            if cause.is::<tokio::time::error::Elapsed>() {
                return "no connection in time".to_owned();
            }
            readable(&cause.to_string())
        }
    }
}

/// One line without control characters, clipped.
pub(crate) fn readable(text: &str) -> String {
    let line: String = text.chars().map(|c| if is_harmless(c) { c } else { ' ' }).take(300).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Neither a control character nor one that turns text around.
fn is_harmless(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_says_is_one_harmless_line() {
        // B-14
        let status = kube::core::Status {
            message: format!("no\u{1b}[31m\n\u{202e}way {}", "x".repeat(1000)),
            code: 403,
            ..Default::default()
        };
        let said = words(&kube::Error::Api(Box::new(status)));
        assert!(said.starts_with("no [31m way x") && said.len() <= 300, "{said}");
        let ours = CallError::Slow { member: "m".into(), within: std::time::Duration::from_secs(3) };
        assert_eq!(words(&kube::Error::Service(Box::new(ours))), "m did not answer within 3s");
    }
}
