//! HTTP/1.1 kept alive, by hand: a request is bytes made once, of an answer only code and length are read. The generator shares the
//! machine with what it measures, so it does as little as possible.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Failure;

/// Longer than any deadline of the server.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where the REST API is, and who we are there.
#[derive(Clone)]
pub struct Door {
    pub address: SocketAddr,
    pub token: String,
}

impl Door {
    pub fn get(&self, path: &str) -> Vec<u8> {
        self.head("GET", path, "\r\n").into_bytes()
    }

    pub fn post(&self, path: &str, body: &Value) -> Vec<u8> {
        let body = body.to_string();
        let length = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        (self.head("POST", path, &length) + &body).into_bytes()
    }

    fn head(&self, method: &str, path: &str, rest: &str) -> String {
        let (address, token) = (self.address, &self.token);
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{rest}")
    }

    /// One question on a connection of its own.
    pub async fn ask(&self, path: &str) -> Result<Value, Failure> {
        let mut wire = Wire::connect(self.address).await?;
        Ok(serde_json::from_slice(wire.good(&self.get(path)).await?)?)
    }
}

/// One connection.
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Result<Wire, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, read: Vec::with_capacity(64 << 10) })
    }

    /// Sends a request and reads the answer to its end: code and body.
    pub async fn send(&mut self, request: &[u8]) -> Result<(u16, &[u8]), Failure> {
        let (code, begin) = timeout(PATIENCE, self.exchange(request)).await.map_err(|_| "no answer")??;
        Ok((code, &self.read[begin..]))
    }

    /// The same, of an answer that must be good.
    pub async fn good(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        let (code, body) = self.send(request).await?;
        if (200..300).contains(&code) {
            return Ok(body);
        }
        let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let (line, body) = (String::from_utf8_lossy(line), String::from_utf8_lossy(body));
        Err(format!("{line}: {code} {}", body.chars().take(300).collect::<String>()).into())
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<(u16, usize), Failure> {
        self.read.clear();
        self.stream.write_all(request).await?;
        let begin = loop {
            if let Some(end) = memchr::memmem::find(&self.read, b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await?;
        };
        let (code, length) = head(&self.read[..begin]).ok_or("an answer without a code or a length")?;
        while self.read.len() < begin + length {
            self.more().await?;
        }
        Ok((code, begin))
    }

    async fn more(&mut self) -> Result<(), Failure> {
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }
}

/// Code and length of an answer.
fn head(head: &[u8]) -> Option<(u16, usize)> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let code = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Some((code, length?))
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn of_an_answer_code_and_length_are_read() {
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nContent-length: 12\r\nx: y\r\n\r\n"), Some((200, 12)));
        assert_eq!(head(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length:0\r\n\r\n"), Some((429, 0)));
        assert_eq!(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"), None);
    }
}
