//! Which object on a member, and in which order kinds come and go.

use std::fmt;

use kube::core::{DynamicObject, GroupVersionKind};

/// An object on a member. Two versions of its kind are the same object.
#[derive(Debug, Clone)]
pub struct Id {
    /// The group; empty for the core group.
    pub group: String,
    /// The version it was last spoken of in. Not part of what it is.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; `None` for an object of the cluster.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

type Parts<'a> = (&'a str, &'a str, Option<&'a str>, &'a str);

impl Id {
    fn parts(&self) -> Parts<'_> {
        (&self.group, &self.kind, self.namespace.as_deref(), &self.name)
    }

    /// Of an object with a kind and a name.
    pub fn of(object: &DynamicObject) -> Option<Id> {
        let types = object.types.as_ref()?;
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
        let id = Id {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: types.kind.clone(),
            namespace: object.metadata.namespace.clone().filter(|namespace| !namespace.is_empty()),
            name: object.metadata.name.clone()?,
        };
        id.is_whole().then_some(id)
    }

    /// Whether every part is there and none can lead a path elsewhere.
    fn is_whole(&self) -> bool {
        let plain = |text: &str| {
            !text.contains(['/', '%', '?', '#']) && !text.contains(char::is_control) && !matches!(text, "." | "..")
        };
        let mut parts = [&self.version, &self.kind, &self.name].into_iter().chain(&self.namespace);
        parts.all(|part| !part.is_empty() && plain(part)) && plain(&self.group)
    }

    pub(crate) fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.group, &self.version, &self.kind)
    }

    /// Whether other objects live in it, so that deleting it deletes them.
    pub(crate) fn is_container(&self) -> bool {
        matches!(
            (self.group.as_str(), self.kind.as_str()),
            ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition")
        )
    }

    /// Lower comes earlier and goes later: what others need, then others, then what stands in their way.
    pub(crate) fn rank(&self) -> u8 {
        const ORDER: &[&[&str]] = &[
            &["Namespace"],
            &["CustomResourceDefinition", "PriorityClass", "StorageClass", "RuntimeClass", "IngressClass"],
            &["ServiceAccount", "ResourceQuota", "LimitRange", "PersistentVolume"],
            &["ClusterRole", "Role"],
            &["ClusterRoleBinding", "RoleBinding"],
            &["ConfigMap", "Secret", "PersistentVolumeClaim"],
            &["Service"],
        ];
        const LAST: &[&str] = &["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService"];
        let early = ORDER.iter().position(|kinds| kinds.contains(&self.kind.as_str()));
        match early {
            Some(rank) => rank as u8,
            None if LAST.contains(&self.kind.as_str()) => ORDER.len() as u8 + 1,
            None => ORDER.len() as u8,
        }
    }

    /// One line of an inventory.
    pub(crate) fn line(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        format!("{}/{}/{}/{namespace}/{}", self.group, self.version, self.kind, self.name)
    }

    /// Reads what [`Id::line`] wrote.
    pub(crate) fn parse(line: &str) -> Option<Id> {
        let mut parts = line.splitn(5, '/').map(str::to_owned);
        let (group, version, kind) = (parts.next()?, parts.next()?, parts.next()?);
        let namespace = Some(parts.next()?).filter(|namespace| !namespace.is_empty());
        let name = parts.next()?;
        let id = Id { group, version, kind, namespace, name };
        id.is_whole().then_some(id)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Id {}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in [
            "/v1/ConfigMap/n/a",
            "apps/v1/Deployment/n/b",
            "/v1/Namespace//n",
            "rbac.authorization.k8s.io/v1/ClusterRole//a:b",
        ] {
            assert_eq!(Id::parse(line).unwrap().line(), line);
        }
        for wrong in [
            "",
            "a",
            "/v1/ConfigMap/n/",
            "///n/a",
            "/v1/ConfigMap/n",
            "/v1/ConfigMap/n/..",
            "/v1/ConfigMap/n/a/../b",
            "/v1/C/n/a?x",
        ] {
            assert_eq!(Id::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_version_of_the_kind_is_the_same_object() {
        let (one, other) = (Id::parse("apps/v1/Deployment/n/a"), Id::parse("apps/v1beta1/Deployment/n/a"));
        assert_eq!(one, other);
    }
}
