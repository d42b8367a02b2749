//! Lines of an answer that goes on, as watches send them; bounded, so that one without an end fills no memory.

use std::io;

use futures_util::{AsyncBufRead, AsyncBufReadExt};

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// A line that is not empty, without its newline.
    Whole,
    /// Nothing more comes. What was cut off there is not a line.
    End,
    /// More than a line may have.
    TooLong,
}

/// Reads up to the next newline, behind what `line` holds already, at most `longest` bytes and what came with them.
pub async fn read_line(
    stream: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    longest: usize,
) -> io::Result<Line> {
    loop {
        let chunk = stream.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(Line::End);
        }
        let newline = memchr::memchr(b'\n', chunk);
        let end = newline.unwrap_or(chunk.len());
        line.extend_from_slice(&chunk[..end]);
        stream.consume_unpin(newline.map_or(end, |at| at + 1));
        if line.len() > longest {
            return Ok(Line::TooLong);
        }
        if newline.is_some() && !line.is_empty() {
            return Ok(Line::Whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_whole_empty_ones_are_passed_over_and_endless_ones_end() {
        let mut stream = futures_util::io::BufReader::with_capacity(3, b"one\n\n\ntwo2\nthr".as_slice());
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            match read_line(&mut stream, &mut line, 10).await.unwrap() {
                Line::Whole => lines.push(String::from_utf8(line).unwrap()),
                other => {
                    assert_eq!(other, Line::End);
                    break;
                }
            }
        }
        assert_eq!(lines, ["one", "two2"]);
        let mut endless = futures_util::io::BufReader::with_capacity(4, [b'x'; 100].as_slice());
        let mut line = Vec::new();
        assert_eq!(read_line(&mut endless, &mut line, 10).await.unwrap(), Line::TooLong);
        assert!(line.len() <= 14, "{}", line.len());
    }
}
