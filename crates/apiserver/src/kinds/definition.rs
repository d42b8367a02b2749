//! The rules of CustomResourceDefinitions themselves: their status, the names they get, and whether their group lets them in.

use super::custom::Names;
use meta::Object;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Instances are removed before the definition goes.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const APPROVAL: &str = "api-approved.kubernetes.io";

pub const NAMES_ACCEPTED: &str = "NamesAccepted";
pub const ESTABLISHED: &str = "Established";
pub const TERMINATING: &str = "Terminating";
const CONFORMANT: &str = "KubernetesAPIApprovalPolicyConformant";

/// A condition but for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    pub fn new(kind: &'static str, status: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status: if status { "True" } else { "False" }, reason, message: message.into() }
    }
}

/// Sets a condition; its time moves only when its status does. Tells whether anything changed.
pub fn set_condition(object: &mut Object, condition: &Condition, now: &str) -> bool {
    let status = object.0.entry("status").or_insert_with(|| json!({}));
    let list = &mut status["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Value::Array(list) = list else { return false };
    let found = list.iter_mut().find(|c| c["type"] == condition.kind);
    let same = found.as_ref().is_some_and(|c| c["status"] == condition.status);
    let time = match &found {
        Some(old) if same => old["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    let new = json!({"type": condition.kind, "status": condition.status, "lastTransitionTime": time,
        "reason": condition.reason, "message": condition.message});
    match found {
        Some(old) if *old == new => return false,
        Some(old) => *old = new,
        None => list.push(new),
    }
    true
}

fn storage_version(object: &Object) -> Option<String> {
    let versions = object.0.get("spec")?.get("versions")?.as_array()?;
    let stored = versions.iter().find(|v| v["storage"] == true)?;
    stored["name"].as_str().map(str::to_owned)
}

/// A new definition has stored nothing but in its storage version.
pub fn prepare_create(object: &mut Object) {
    let stored: Vec<String> = storage_version(object).into_iter().collect();
    object.0.insert(
        "status".into(),
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}),
    );
}

/// From now on objects may be stored in the storage version, whatever it was before.
pub fn prepare_update(object: &mut Object, _: &Object) {
    let Some(version) = storage_version(object) else { return };
    let status = object.0.entry("status").or_insert_with(|| json!({}));
    let list = &mut status["storedVersions"];
    if !list.is_array() {
        *list = json!([]);
    }
    if let Value::Array(list) = list
        && !list.iter().any(|v| *v == version.as_str())
    {
        list.push(version.into());
    }
}

/// Names others of the group have already.
#[derive(Default)]
pub struct Taken {
    pub resources: HashSet<String>,
    pub kinds: HashSet<String>,
}

impl Taken {
    pub fn add(&mut self, names: &Names) {
        self.resources.extend([names.plural.clone(), names.singular.clone()]);
        self.resources.extend(names.short.iter().cloned());
        self.kinds.extend([names.kind.clone(), names.list_kind.clone()]);
    }
}

/// Which names a definition gets, and the conditions that tell. What it has it keeps; a name somebody else has is not given.
pub fn grant(wanted: &Names, has: &Names, taken: &Taken, established: bool) -> (Names, Vec<Condition>) {
    let free = |name: &str, own: &str, taken: &HashSet<String>| match name == own || !taken.contains(name) {
        true => Ok(()),
        false => Err(format!("{name:?} is already in use")),
    };
    let mut gets = has.clone();
    // Of several conflicts the last one is told.
    let mut conflict = None;
    match free(&wanted.plural, &has.plural, &taken.resources) {
        Ok(()) => gets.plural.clone_from(&wanted.plural),
        Err(why) => conflict = Some(("PluralConflict", why)),
    }
    match free(&wanted.singular, &has.singular, &taken.resources) {
        Ok(()) => gets.singular.clone_from(&wanted.singular),
        Err(why) => conflict = Some(("SingularConflict", why)),
    }
    let new = wanted.short.iter().filter(|name| !has.short.contains(name));
    let refused: Vec<String> = new.filter_map(|name| free(name, "", &taken.resources).err()).collect();
    match refused.as_slice() {
        [] => gets.short.clone_from(&wanted.short),
        [only] => conflict = Some(("ShortNamesConflict", only.clone())),
        several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    match free(&wanted.kind, &has.kind, &taken.kinds) {
        Ok(()) => gets.kind.clone_from(&wanted.kind),
        Err(why) => conflict = Some(("KindConflict", why)),
    }
    match free(&wanted.list_kind, &has.list_kind, &taken.kinds) {
        Ok(()) => gets.list_kind.clone_from(&wanted.list_kind),
        Err(why) => conflict = Some(("ListKindConflict", why)),
    }
    gets.categories.clone_from(&wanted.categories);
    let initial = || Condition::new(ESTABLISHED, true, "InitialNamesAccepted", "the initial names have been accepted");
    let conditions = match conflict {
        None => vec![Condition::new(NAMES_ACCEPTED, true, "NoConflicts", "no conflicts found"), initial()],
        Some((reason, why)) if established => vec![Condition::new(NAMES_ACCEPTED, false, reason, why)],
        Some((reason, why)) => vec![
            Condition::new(NAMES_ACCEPTED, false, reason, why),
            Condition::new(ESTABLISHED, false, "NotAccepted", "not all names are accepted"),
        ],
    };
    (gets, conditions)
}

/// Groups of the Kubernetes community need an approval; this tells how it stands.
pub fn approval(object: &Object) -> Option<Condition> {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = object.0.get("spec")?.get("group")?.as_str()?;
    let within = |domain: &str| group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    if !within("k8s.io") && !within("kubernetes.io") {
        return None;
    }
    let stated = object.meta().get("annotations").and_then(|a| a.get(APPROVAL)).and_then(Value::as_str);
    Some(match stated.unwrap_or_default() {
        "" => {
            let why = format!("protected groups must have approval annotation {APPROVAL:?}, {SEE}");
            Condition::new(CONFORMANT, false, "MissingAnnotation", why)
        }
        text if text.starts_with("unapproved") => {
            Condition::new(CONFORMANT, false, "UnapprovedAnnotation", format!("not approved: {text:?}"))
        }
        text if is_url(text) => Condition::new(CONFORMANT, true, "ApprovedAnnotation", format!("approved in {text}")),
        _ => {
            let why = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \"unapproved\", {SEE}"
            );
            Condition::new(CONFORMANT, false, "InvalidAnnotation", why)
        }
    })
}

fn is_url(text: &str) -> bool {
    text.parse::<http::Uri>().is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(|h| !h.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, kind: &str) -> Names {
        Names {
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short: vec!["sh".into()],
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            categories: vec!["all".into()],
        }
    }

    #[test]
    fn free_names_are_granted_and_establish() {
        let wanted = names("crontabs", "CronTab");
        let (gets, conditions) = grant(&wanted, &Names::default(), &Taken::default(), false);
        assert_eq!(gets, wanted);
        assert!(conditions.iter().all(|c| c.status == "True"), "{conditions:?}");
    }

    #[test]
    fn a_name_of_another_is_refused_and_the_rest_granted() {
        let mut taken = Taken::default();
        taken.add(&names("others", "CronTab"));
        let (gets, conditions) = grant(&names("crontabs", "CronTab"), &Names::default(), &taken, false);
        assert_eq!(gets.plural, "crontabs");
        assert_eq!((gets.kind.as_str(), gets.short.len()), ("", 0));
        let told: Vec<_> = conditions.iter().map(|c| (c.kind, c.status, c.reason, c.message.as_str())).collect();
        let want = [
            (NAMES_ACCEPTED, "False", "ListKindConflict", "\"CronTabList\" is already in use"),
            (ESTABLISHED, "False", "NotAccepted", "not all names are accepted"),
        ];
        assert_eq!(told, want);
    }

    #[test]
    fn what_is_established_stays_so() {
        let mut taken = Taken::default();
        taken.resources.insert("ct".into());
        let has = names("crontabs", "CronTab");
        let wanted = Names { short: vec!["ct".into()], ..has.clone() };
        let (gets, conditions) = grant(&wanted, &has, &taken, true);
        assert_eq!(gets.short, ["sh"]);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].reason, "ShortNamesConflict");
    }

    #[test]
    fn a_condition_moves_its_time_only_with_its_status() {
        let mut object = Object::default();
        let yes = Condition::new(ESTABLISHED, true, "A", "a");
        assert!(set_condition(&mut object, &yes, "1"));
        assert!(!set_condition(&mut object, &yes, "2"));
        assert!(set_condition(&mut object, &Condition { reason: "B", ..yes }, "3"));
        assert_eq!(object.0["status"]["conditions"][0]["lastTransitionTime"], "1");
        assert!(set_condition(&mut object, &Condition::new(ESTABLISHED, false, "C", ""), "4"));
        assert_eq!(object.0["status"]["conditions"][0]["lastTransitionTime"], "4");
    }

    #[test]
    fn community_groups_need_an_approval() {
        let reason = |group: &str, stated: &str| {
            let object = json!({"metadata": {"annotations": {APPROVAL: stated}}, "spec": {"group": group}});
            approval(&Object::from_value(object).unwrap()).map(|c| c.reason)
        };
        assert_eq!(reason("example.com", ""), None);
        assert_eq!(reason("notk8s.io", ""), None);
        assert_eq!(reason("x.k8s.io", ""), Some("MissingAnnotation"));
        assert_eq!(reason("k8s.io", "unapproved, testing"), Some("UnapprovedAnnotation"));
        assert_eq!(reason("kubernetes.io", "https://github.com/kubernetes/x"), Some("ApprovedAnnotation"));
        assert_eq!(reason("a.kubernetes.io", "why not"), Some("InvalidAnnotation"));
    }
}
