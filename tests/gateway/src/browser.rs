//! A browser as far as the server can tell: a cookie, the CSRF value, an origin, WebSockets.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use muster_tests::Answer;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::{Call, Face};

/// Somebody's tab on the console.
#[derive(Clone)]
pub struct Browser {
    pub address: SocketAddr,
    pub cookie: String,
    pub csrf: String,
}

impl Browser {
    /// Nobody yet.
    pub fn new(face: &Face) -> Self {
        Browser { address: face.address, cookie: String::new(), csrf: String::new() }
    }

    /// Logs in; the answer must be a session.
    pub async fn login(face: &Face, user: &str, password: &str) -> Self {
        let mut browser = Browser::new(face);
        let answer = browser.try_login(user, password).await;
        browser.take(&answer);
        browser
    }

    pub async fn try_login(&self, user: &str, password: &str) -> Answer {
        self.post("/wapi/v1/login", json!({"user": user, "password": password})).await
    }

    /// Keeps cookie and CSRF value of an answer that began a session.
    pub fn take(&mut self, answer: &Answer) {
        let session = answer.ok(200);
        let cookie = answer.header("set-cookie");
        self.cookie = cookie.split(';').next().unwrap().to_owned();
        self.csrf = session["csrf"].as_str().unwrap().to_owned();
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A request as a page of the console makes it.
    pub fn call<'a>(&self, method: &'a str, path: &str) -> Call<'a> {
        let call = self.bare(method, path).header("sec-fetch-site", "same-origin");
        let call = if method == "GET" { call } else { call.header("origin", &self.origin()) };
        if self.csrf.is_empty() { call } else { call.header("x-muster-csrf", &self.csrf) }
    }

    /// A request with the cookie and nothing else.
    pub fn bare<'a>(&self, method: &'a str, path: &str) -> Call<'a> {
        let call =
            Call { address: self.address, method, path: path.to_owned(), token: None, body: None, headers: vec![] };
        if self.cookie.is_empty() { call } else { call.header("cookie", &self.cookie) }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send().await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path).json(body).send().await
    }

    /// The code with which somebody of this session is answered.
    pub async fn status(&self) -> u16 {
        self.get("/wapi/v1/session").await.status
    }

    pub async fn ticket(&self) -> String {
        self.call("POST", "/wapi/v1/ticket").send().await.ok(200)["ticket"].as_str().unwrap().to_owned()
    }

    /// Opens the stream and says who it is.
    pub async fn stream(&self) -> Tab {
        let mut tab = Tab::open(self.address, "/wapi/v1/stream", &[("origin", &self.origin())]).await.unwrap();
        tab.say(json!({"ticket": self.ticket().await})).await;
        tab
    }
}

/// An open WebSocket.
pub struct Tab(WebSocketStream<TcpStream>);

impl Tab {
    /// The handshake with these headers; the code of the refusal if there is one.
    pub async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Tab, u16> {
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Tab(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(why) => panic!("{why}"),
        }
    }

    pub async fn say(&mut self, value: Value) {
        self.0.send(Message::Text(value.to_string().into())).await.unwrap();
    }

    pub async fn send(&mut self, message: Message) {
        let _ = self.0.send(message).await;
    }

    /// The next event that is no ping; a number is the code with which the server closed. Nothing if it is silent so long.
    pub async fn hear(&mut self, patience: Duration) -> Option<Value> {
        self.hear_all(patience, |_, _| {}).await
    }

    /// The same, with the pieces of logs that come before it: their ids and texts.
    pub async fn hear_all(&mut self, patience: Duration, mut piece: impl FnMut(&str, &[u8])) -> Option<Value> {
        let next = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Binary(frame))) => {
                        let (id, text) = frame[1..].split_at(usize::from(frame[0]));
                        piece(std::str::from_utf8(id).unwrap(), text);
                    }
                    Some(Ok(Message::Text(text))) => {
                        let value: Value = serde_json::from_str(&text).unwrap();
                        if value["event"] != "ping" {
                            return value;
                        }
                    }
                    Some(Ok(Message::Close(frame))) => return json!(frame.map_or(1005, |frame| u16::from(frame.code))),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return json!("gone"),
                }
            }
        };
        timeout(patience, next).await.ok()
    }
}
