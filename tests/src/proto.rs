//! Hand-assembled Kubernetes protobuf: just enough wire format to write small bodies by field number.

/// A message under construction.
#[derive(Default, Clone)]
pub struct Message(pub Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.varint(u64::from(field << 3 | 2));
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub fn message(self, field: u32, value: Message) -> Self {
        self.bytes(field, &value.0)
    }

    pub fn number(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field << 3));
        self.varint(value);
        self
    }

    /// One entry of a `map<string, …>` field.
    pub fn entry(self, field: u32, key: &str, value: &[u8]) -> Self {
        self.message(field, Message::new().text(1, key).bytes(2, value))
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// ObjectMeta with a name, a namespace and labels.
pub fn metadata(name: &str, namespace: &str, labels: &[(&str, &str)]) -> Message {
    let mut meta = Message::new().text(1, name);
    if !namespace.is_empty() {
        meta = meta.text(3, namespace);
    }
    labels.iter().fold(meta, |meta, (key, value)| meta.entry(11, key, value.as_bytes()))
}

/// The envelope: the magic bytes and `runtime.Unknown`.
pub fn envelope(api_version: &str, kind: &str, object: Message) -> Vec<u8> {
    let unknown = Message::new()
        .message(1, Message::new().text(1, api_version).text(2, kind))
        .message(2, object)
        .text(3, "")
        .text(4, "");
    [b"k8s\0".as_slice(), &unknown.0].concat()
}

pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";
