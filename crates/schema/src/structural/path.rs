//! Where in an object a value stands. Kept as borrowed steps, written out only when there is something to say.

use std::fmt;

#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    /// A key of a map: `labels[app]`, where a field would be `labels.app`.
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub fn field(&'a self, name: &'a str) -> Self {
        Path::Field(self, name)
    }

    pub fn key(&'a self, name: &'a str) -> Self {
        Path::Key(self, name)
    }

    pub fn index(&'a self, at: usize) -> Self {
        Path::Index(self, at)
    }

    pub fn is_root(&self) -> bool {
        matches!(self, Path::Root)
    }

    /// With keys written as fields, which is how OpenAPI validation and pruning name places.
    pub fn dotted(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    fn write(&self, out: &mut String, dotted: bool) {
        match self {
            Path::Root => {}
            Path::Key(parent, name) if !dotted => {
                parent.write(out, dotted);
                out.push('[');
                out.push_str(clipped(name));
                out.push(']');
            }
            Path::Field(parent, name) | Path::Key(parent, name) => {
                parent.write(out, dotted);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(clipped(name));
            }
            Path::Index(parent, at) => {
                parent.write(out, dotted);
                out.push('[');
                out.push_str(&at.to_string());
                out.push(']');
            }
        }
    }
}

/// Names may be as long as a request; many errors below one of them must not multiply that.
fn clipped(name: &str) -> &str {
    &name[..name.floor_char_boundary(512)]
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(NOWHERE);
        }
        let mut out = String::new();
        self.write(&mut out, false);
        f.write_str(&out)
    }
}

/// What Kubernetes prints for the place that is the whole object.
pub(crate) const NOWHERE: &str = "<nil>";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keys_and_indices_are_written_as_kubernetes_writes_them() {
        let (spec, list, item, key);
        let root = Path::Root;
        spec = root.field("spec");
        list = spec.field("list");
        item = list.index(3);
        key = item.key("a.b");
        assert_eq!(key.to_string(), "spec.list[3][a.b]");
        assert_eq!(key.dotted(), "spec.list[3].a.b");
        assert_eq!(root.to_string(), "<nil>");
        assert_eq!(root.dotted(), "");
    }
}
