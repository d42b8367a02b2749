//! The little of the Redis protocol (RESP2) a migration needs: pipelines, binary-safe, bounded in time and size.

use std::{fmt, io, sync::Arc, time::Duration};

use tokio::{
    io::{
        AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf,
        WriteHalf,
    },
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls};

/// The largest string Redis itself allows.
const BULK: usize = 512 * 1024 * 1024;
const ELEMENTS: usize = 16 * 1024 * 1024;
const LINE: u64 = 64 * 1024;
const DEPTH: u8 = 8;

/// What a server answers.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`.
    Simple(String),
    /// `-CODE message`.
    Error(String),
    /// `:1`.
    Integer(i64),
    /// A string of bytes; `None` for nil.
    Bulk(Option<Vec<u8>>),
    /// A list; nil is an empty one.
    List(Vec<Reply>),
}

impl fmt::Debug for Reply {
    /// Values are the user's data: only their size is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{text}"),
            Self::Error(text) => write!(f, "-{text}"),
            Self::Integer(number) => write!(f, ":{number}"),
            Self::Bulk(None) => f.write_str("nil"),
            Self::Bulk(Some(bytes)) => write!(f, "{} bytes", bytes.len()),
            Self::List(replies) => f.debug_list().entries(replies).finish(),
        }
    }
}

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network, or a server that went away.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server said no.
    #[error("{0}")]
    Refused(String),
    /// It does not speak Redis.
    #[error("not a Redis answer: {0}")]
    Protocol(String),
}

impl Error {
    /// The first word of a refusal: `WRONGPASS`, `OOM`, `BUSYKEY`.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(text) => text.split(' ').next().unwrap_or_default(),
            _ => "",
        }
    }

    /// Whether it may pass by itself: the network, a server that loads its data, a fail-over.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Io(_) | Self::Timeout(_) => true,
            Self::Refused(_) => matches!(self.code(), "LOADING" | "BUSY" | "TRYAGAIN" | "MASTERDOWN" | "CLUSTERDOWN"),
            Self::Protocol(_) => false,
        }
    }
}

impl Reply {
    /// Turns a refusal into an error.
    pub fn ok(self) -> Result<Self, Error> {
        match self {
            Self::Error(text) => Err(Error::Refused(text)),
            other => Ok(other),
        }
    }

    /// A number.
    pub fn integer(self) -> Result<i64, Error> {
        match self.ok()? {
            Self::Integer(number) => Ok(number),
            other => Err(unexpected("a number", &other)),
        }
    }

    /// Bytes, or nil.
    pub fn bytes(self) -> Result<Option<Vec<u8>>, Error> {
        match self.ok()? {
            Self::Bulk(bytes) => Ok(bytes),
            Self::Simple(text) => Ok(Some(text.into_bytes())),
            other => Err(unexpected("a string", &other)),
        }
    }

    /// Text, or nothing for nil.
    pub fn text(self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.bytes()?.unwrap_or_default()).into_owned())
    }

    /// A list.
    pub fn list(self) -> Result<Vec<Reply>, Error> {
        match self.ok()? {
            Self::List(replies) => Ok(replies),
            other => Err(unexpected("a list", &other)),
        }
    }
}

fn unexpected(wanted: &str, got: &Reply) -> Error {
    Error::Protocol(format!("{wanted} was expected, not {got:?}"))
}

/// One command: its words, each any bytes.
pub type Command = Vec<Vec<u8>>;

/// `command!["SCAN", cursor, …]`: words of text or bytes.
macro_rules! command {
    ($($word:expr),+ $(,)?) => { vec![$(AsRef::<[u8]>::as_ref(&$word).to_vec()),+] };
}
pub(super) use command;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection.
pub struct Connection {
    reader: BufReader<ReadHalf<Box<dyn Stream>>>,
    writer: WriteHalf<Box<dyn Stream>>,
    limit: Duration,
}

impl Connection {
    /// Connects; every later pipeline has `limit` to be answered.
    pub async fn open(address: &str, tls: Option<Arc<rustls::ClientConfig>>, limit: Duration) -> Result<Self, Error> {
        let connect = async {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            let Some(config) = tls else { return Ok(Box::new(socket) as Box<dyn Stream>) };
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
            let name = rustls::pki_types::ServerName::try_from(host.to_owned())
                .map_err(|why| Error::Io(io::Error::new(io::ErrorKind::InvalidInput, why)))?;
            let socket = TlsConnector::from(config).connect(name, socket).await?;
            Ok(Box::new(socket) as Box<dyn Stream>)
        };
        let within = limit.min(Duration::from_secs(10));
        let stream = timeout(within, connect).await.map_err(|_| Error::Timeout(within)).flatten()?;
        let (reader, writer) = tokio::io::split(stream);
        Ok(Self { reader: BufReader::with_capacity(64 * 1024, reader), writer, limit })
    }

    /// Sends all commands and reads as many answers. After an error the connection is of no use any more.
    pub async fn pipeline(&mut self, commands: &[Command]) -> Result<Vec<Reply>, Error> {
        let Self { reader, writer, limit } = self;
        // Writing and reading at once: a server that cannot send its answers stops reading.
        let write = async {
            writer.write_all(&encoded(commands)).await?;
            writer.flush().await?;
            Ok(())
        };
        let read = async {
            let mut replies = Vec::with_capacity(commands.len());
            for _ in commands {
                replies.push(read_reply(reader, DEPTH).await?);
            }
            Ok::<_, Error>(replies)
        };
        let both = async { tokio::try_join!(async { write.await.map_err(Error::Io) }, read) };
        let ((), replies) = timeout(*limit, both).await.map_err(|_| Error::Timeout(*limit)).flatten()?;
        Ok(replies)
    }

    /// One command; a refusal is an error.
    pub async fn call(&mut self, command: Command) -> Result<Reply, Error> {
        let mut replies = self.pipeline(std::slice::from_ref(&command)).await?;
        replies.pop().ok_or_else(|| Error::Protocol("no answer".to_owned()))?.ok()
    }
}

fn encoded(commands: &[Command]) -> Vec<u8> {
    let mut out = Vec::with_capacity(commands.iter().flatten().map(|word| word.len() + 16).sum());
    for command in commands {
        out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for word in command {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

async fn read_line(reader: &mut (impl AsyncBufRead + Unpin + Send)) -> Result<String, Error> {
    let mut line = Vec::new();
    reader.take(LINE).read_until(b'\n', &mut line).await?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None if line.is_empty() => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection").into())
        }
        None => Err(Error::Protocol("a line without an end".to_owned())),
    }
}

fn length(text: &str, limit: usize) -> Result<Option<usize>, Error> {
    let number: i64 = text.parse().map_err(|_| Error::Protocol(format!("{text:?} is no length")))?;
    match usize::try_from(number) {
        Ok(number) if number <= limit => Ok(Some(number)),
        Ok(number) => Err(Error::Protocol(format!("a length of {number}"))),
        Err(_) => Ok(None), // -1 is nil
    }
}

fn read_reply<'a, R: AsyncBufRead + Unpin + Send>(
    reader: &'a mut R,
    depth: u8,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>> {
    Box::pin(async move {
        let line = read_line(reader).await?;
        let mut rest = line.chars();
        let kind = rest.next();
        let rest = rest.as_str();
        match kind {
            Some('+') => Ok(Reply::Simple(rest.to_owned())),
            Some('-') => Ok(Reply::Error(rest.to_owned())),
            Some(':') => {
                rest.parse().map(Reply::Integer).map_err(|_| Error::Protocol(format!("{rest:?} is no number")))
            }
            Some('$') => {
                let Some(length) = length(rest, BULK)? else { return Ok(Reply::Bulk(None)) };
                // Memory grows with what arrives, not with what was announced.
                let mut bytes = Vec::with_capacity(length.min(64 * 1024));
                reader.take(length as u64 + 2).read_to_end(&mut bytes).await?;
                if bytes.len() < length + 2 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                bytes.truncate(length);
                Ok(Reply::Bulk(Some(bytes)))
            }
            Some('*') if depth > 0 => {
                let count = length(rest, ELEMENTS)?.unwrap_or(0);
                let mut replies = Vec::with_capacity(count.min(1024));
                for _ in 0..count {
                    replies.push(read_reply(reader, depth - 1).await?);
                }
                Ok(Reply::List(replies))
            }
            _ => {
                Err(Error::Protocol(format!("a line that begins with {:?}", line.chars().take(16).collect::<String>())))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Result<Reply, Error> {
        let mut reader = BufReader::new(bytes);
        read_reply(&mut reader, DEPTH).await
    }

    #[tokio::test]
    async fn answers_of_every_type_are_read() {
        // KC-7
        assert_eq!(read(b"+OK\r\n").await.unwrap(), Reply::Simple("OK".into()));
        assert_eq!(read(b"-OOM no\r\n").await.unwrap(), Reply::Error("OOM no".into()));
        assert_eq!(read(b":-2\r\n").await.unwrap(), Reply::Integer(-2));
        assert_eq!(read(b"$-1\r\n").await.unwrap(), Reply::Bulk(None));
        assert_eq!(read(b"$4\r\na\r\nb\r\n").await.unwrap(), Reply::Bulk(Some(b"a\r\nb".to_vec())));
        let list = read(b"*2\r\n$1\r\n0\r\n*1\r\n$0\r\n\r\n").await.unwrap();
        assert_eq!(
            list,
            Reply::List(vec![Reply::Bulk(Some(b"0".to_vec())), Reply::List(vec![Reply::Bulk(Some(vec![]))])])
        );
    }

    #[tokio::test]
    async fn nonsense_is_an_error_and_never_a_panic() {
        // KC-7
        let deep = b"*1\r\n".repeat(1000);
        let endless = [b"+".to_vec(), vec![b'x'; 100_000]].concat();
        let bad: [&[u8]; 8] =
            [b"", b"HTTP/1.1 400\r\n", b"$9999999999999\r\n", b"*-\r\n", b":x\r\n", b"$5\r\nab", &deep, &endless];
        for bytes in bad {
            assert!(read(bytes).await.is_err(), "{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(20)]));
        }
    }

    #[test]
    fn commands_are_counted_words() {
        // KC-7
        assert_eq!(encoded(&[command!["GET", [0xffu8, b'\n']]]), b"*2\r\n$3\r\nGET\r\n$2\r\n\xff\n\r\n");
    }
}
