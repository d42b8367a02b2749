//! A line taken apart: pipelines, and when each of them runs.

#[derive(Clone, Copy)]
pub(super) enum Join {
    Always,
    And,
    Or,
}

/// A line as pipelines, and when each runs.
pub(super) fn pipelines(line: &str) -> Vec<(Join, Vec<String>)> {
    let (mut all, mut pipeline, mut command) = (Vec::new(), Vec::new(), String::new());
    let (mut join, mut quote) = (Join::Always, None);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if q == c => {
                quote = None;
                command.push(c);
            }
            (None, '\'' | '"') => {
                quote = Some(c);
                command.push(c);
            }
            (q, '\\') if q != Some('\'') => {
                command.push(c);
                command.extend(chars.next());
            }
            (None, '#') if command.chars().next_back().is_none_or(char::is_whitespace) => break,
            (None, ';' | '\n') => {
                pipeline.push(std::mem::take(&mut command));
                all.push((join, std::mem::take(&mut pipeline)));
                join = Join::Always;
            }
            (None, '|' | '&') if chars.peek() == Some(&c) => {
                chars.next();
                pipeline.push(std::mem::take(&mut command));
                all.push((join, std::mem::take(&mut pipeline)));
                join = if c == '&' { Join::And } else { Join::Or };
            }
            (None, '|') => pipeline.push(std::mem::take(&mut command)),
            (_, c) => command.push(c),
        }
    }
    pipeline.push(command);
    all.push((join, pipeline));
    all.retain(|(_, commands)| commands.iter().any(|command| !command.trim().is_empty()));
    all
}
