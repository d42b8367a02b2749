//! The schema of a version, as its author wrote it.

use meta::{FieldError, FieldErrors};
use serde_json::Value;

use super::{field_path, rules, structure};
use crate::structural::defaults;
use crate::structural::path::Path;
use crate::structural::props::{AdditionalProps, Items, Props};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const ROOT_FIELDS: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems \
                           MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations";

/// Lists are keyed by a few fields.
const MAX_KEYS: usize = 64;

/// `known`: the stored CRD has this schema already, so it is not judged again.
pub(super) fn validate(props: Props<'_>, at: &str, status: bool, known: bool, errors: &mut FieldErrors) {
    let base = Path::Root.field(at);
    let path = base.field("openAPIV3Schema");
    let before = errors.len();
    if status {
        root_with_status(props, &path, errors);
    }
    if known {
        return;
    }
    if props.flag("nullable") {
        errors.push(FieldError::forbidden(path.field("nullable").to_string(), "nullable cannot be true at the root"));
    }
    let unsupported = structure::unsupported(props);
    let mut rules = None;
    if unsupported.is_none() {
        let wrong = structure::validate(props, &path);
        let wrong = if wrong.is_empty() { defaults::validate(props, &path) } else { wrong };
        if wrong.is_empty() {
            rules = Some(rules::Scope::root());
        }
        errors.extend(wrong);
    }
    let mut walk = Walk { errors: Vec::new(), rules: rules::Judge::default() };
    walk.schema(props, &path, Context { is_root: true, rules, ..Context::default() });
    errors.append(&mut walk.errors);
    errors.extend(walk.rules.finish(&path));
    if let Some(why) = unsupported.filter(|_| errors.len() == before) {
        errors.push(FieldError::invalid(path.to_string(), "", why));
    }
}

/// The status is cut out of the schema, so nothing at the root may speak of it.
fn root_with_status(props: Props<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let kind = props.kind();
    if !kind.is_empty() && kind != "object" {
        let why =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(path.field("type").to_string(), kind, why));
        return;
    }
    let allowed = |key: &str| {
        let go_name = match key {
            "x-kubernetes-preserve-unknown-fields" => "XPreserveUnknownFields".to_owned(),
            "x-kubernetes-validations" => "XValidations".to_owned(),
            key => key[..1].to_uppercase() + &key[1..],
        };
        ROOT_FIELDS.split(' ').any(|name| name == go_name)
    };
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if props.0.iter().any(|(key, value)| !key.is_empty() && key.is_ascii() && !allowed(key) && !empty(value)) {
        let why = format!(
            "only [{ROOT_FIELDS}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(path.to_string(), Value::Object(props.0.clone()), why));
    }
}

/// What the schemas around say about a schema.
#[derive(Clone, Copy, Default)]
struct Context<'a> {
    is_root: bool,
    /// Why there may be no default here.
    no_defaults: Option<&'a str>,
    /// In apiVersion, kind or metadata of a resource.
    in_meta: bool,
    /// The nearest place above whose old value cannot be told.
    uncorrelated: Option<&'a Path<'a>>,
    rules: Option<rules::Scope>,
}

struct Walk {
    errors: FieldErrors,
    rules: rules::Judge,
}

impl Walk {
    fn forbid(&mut self, path: &Path<'_>, name: &str, why: &str) {
        self.errors.push(FieldError::forbidden(path.field(name).to_string(), why));
    }

    fn schema(&mut self, props: Props<'_>, path: &Path<'_>, context: Context<'_>) {
        let before = self.errors.len();
        if before > structure::ENOUGH {
            return;
        }
        self.keywords(props, path, context);
        self.children(props, path, context);
        self.extensions(props, path);
        self.keyed_lists(props, path);
        let written = props.parts("x-kubernetes-validations");
        if written.is_empty() {
            return;
        }
        self.rule_texts(props, &written, path);
        if self.errors.len() == before
            && let Some(scope) = context.rules
        {
            self.rules.judge(props, &written, path, context.is_root, scope, context.uncorrelated);
        }
    }

    /// Keywords that are not for CRDs.
    fn keywords(&mut self, props: Props<'_>, path: &Path<'_>, context: Context<'_>) {
        let kind = props.kind();
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.errors.push(FieldError::not_supported(path.field("type").to_string(), kind, &TYPES));
        }
        if let Some(reason) = context.no_defaults
            && props.get("default").is_some()
        {
            self.forbid(path, "default", &format!("must not be set {reason}"));
        }
        for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            let there = match props.get(name) {
                Some(Value::Object(map)) => !map.is_empty(),
                Some(Value::String(text)) => !text.is_empty() || name == "$ref",
                other => other.is_some(),
            };
            if there {
                self.forbid(path, name, &format!("{name} is not supported"));
            }
        }
        if kind == "null" {
            self.forbid(path, "type", "type cannot be set to null, use nullable as an alternative");
        }
        if matches!(props.items(), Some(Items::Many(_))) {
            self.forbid(path, "items", "items must be a schema object and not an array");
        }
        if context.in_meta && props.embedded() {
            self.forbid(path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
        if props.flag("uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path, "uniqueItems", why);
        }
    }

    fn children(&mut self, props: Props<'_>, path: &Path<'_>, context: Context<'_>) {
        let below = |context: Context<'_>| context.rules.map(|scope| scope.below(props));
        let inner = Context { is_root: false, rules: below(context), ..context };
        if let Some(additional) = props.additional() {
            let open = matches!(additional, AdditionalProps::Allowed(true));
            if !open && props.named("properties").next().is_some() {
                self.forbid(path, "additionalProperties", "additionalProperties and properties are mutual exclusive");
            }
            if let AdditionalProps::Schema(schema) = additional {
                let no_defaults = if context.in_meta {
                    Some("inside additionalProperties applying to object metadata")
                } else {
                    context.no_defaults
                };
                self.schema(schema, &path.field("additionalProperties"), Context { no_defaults, ..inner });
            }
        }
        let properties = path.field("properties");
        for (name, property) in props.named("properties") {
            let meta = (context.is_root || props.embedded()) && matches!(name, "metadata" | "kind" | "apiVersion");
            let reason = format!("in top-level {name}");
            let no_defaults = if meta && context.is_root { Some(reason.as_str()) } else { context.no_defaults };
            let context = Context { in_meta: context.in_meta || meta, no_defaults, ..inner };
            self.schema(property, &properties.key(name), context);
        }
        let plain = Context { rules: None, ..inner };
        if let Some(not) = props.part("not") {
            self.schema(not, &path.field("not"), plain);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            let junctor = path.field(name);
            for (at, nested) in props.parts(name).into_iter().enumerate() {
                self.schema(nested, &junctor.index(at), plain);
            }
        }
        for name in ["definitions", "dependencies"] {
            let named = path.field(name);
            for (name, nested) in props.named(name) {
                self.schema(nested, &named.key(name), plain);
            }
        }
        let keyed = props.list_type() == Some("map");
        let uncorrelated = if keyed { context.uncorrelated } else { context.uncorrelated.or(Some(path)) };
        let items = path.field("items");
        match props.items() {
            None => {}
            Some(Items::One(item)) => self.schema(item, &items, Context { uncorrelated, ..inner }),
            Some(Items::Many(many)) => {
                for (at, item) in many.into_iter().enumerate() {
                    self.schema(item, &items.index(at), Context { uncorrelated, ..inner });
                }
            }
        }
    }

    fn extensions(&mut self, props: Props<'_>, path: &Path<'_>) {
        const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
        if props.get(PRESERVE) == Some(&Value::Bool(false)) {
            let field = path.field(PRESERVE).to_string();
            self.errors.push(FieldError::invalid(field, false, "must be true or undefined"));
        }
        if let Some(map_type) = props.map_type() {
            self.typed(props, path, "object", "x-kubernetes-map-type");
            if !["atomic", "granular"].contains(&map_type) {
                let field = path.field("x-kubernetes-map-type").to_string();
                self.errors.push(FieldError::not_supported(field, map_type, &["atomic", "granular"]));
            }
        }
        let Some(list_type) = props.list_type() else {
            if !props.values("x-kubernetes-list-map-keys").is_empty() {
                let why = "must be map if x-kubernetes-list-map-keys is non-empty";
                self.errors.push(FieldError::required(path.field("x-kubernetes-list-type").to_string(), why));
            }
            return;
        };
        if self.typed(props, path, "array", "x-kubernetes-list-type") && list_type == "set" {
            self.set_items(props, path);
        }
        let field = path.field("x-kubernetes-list-type").to_string();
        if !["atomic", "set", "map"].contains(&list_type) {
            self.errors.push(FieldError::not_supported(&*field, list_type, &["atomic", "set", "map"]));
        }
        if list_type != "map" && !props.values("x-kubernetes-list-map-keys").is_empty() {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.errors.push(FieldError::invalid(field, list_type, why));
        }
    }

    fn typed(&mut self, props: Props<'_>, path: &Path<'_>, expected: &str, extension: &str) -> bool {
        let kind = props.kind();
        if kind != expected {
            let why = format!("must be {expected} if {extension} is specified");
            let field = path.field("type").to_string();
            self.errors.push(match kind {
                "" => FieldError::required(field, why),
                kind => FieldError::invalid(field, kind, why),
            });
        }
        kind == expected
    }

    /// The items of a set are compared whole, so they must be one value each.
    fn set_items(&mut self, props: Props<'_>, path: &Path<'_>) {
        let Some(item) = props.item() else { return };
        let list_type = item.list_type();
        let wrong = match item.kind() {
            "array" if list_type.is_some_and(|list_type| list_type != "atomic") => "x-kubernetes-list-type",
            "object" if item.map_type() != Some("atomic") => "x-kubernetes-map-type",
            _ => return,
        };
        let field = path.field("items").field(wrong).to_string();
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        self.errors.push(FieldError::invalid(field, list_type.map_or(Value::Null, Value::from), why));
    }

    fn keyed_lists(&mut self, props: Props<'_>, path: &Path<'_>) {
        let Some(list_type @ ("map" | "set")) = props.list_type() else { return };
        let items = path.field("items");
        if list_type == "map" {
            self.map_keys(props, path);
        }
        let Some(item) = props.item() else { return };
        if item.flag("nullable") {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbid(&items, "nullable", &why);
        }
        if list_type == "set" {
            return;
        }
        let required = item.texts("required");
        let properties = items.field("properties");
        for key in props.texts("x-kubernetes-list-map-keys") {
            let Some(property) = item.property(key) else { continue };
            let place = properties.key(key);
            if !required.contains(&key) && property.get("default").is_none() {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.errors.push(FieldError::required(place.field("default").to_string(), why));
            }
            if property.flag("nullable") {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbid(&place, "nullable", why);
            }
        }
    }

    fn map_keys(&mut self, props: Props<'_>, path: &Path<'_>) {
        const KEYS: &str = "x-kubernetes-list-map-keys";
        let keys = props.texts(KEYS);
        let field = path.field(KEYS).to_string();
        if keys.len() > MAX_KEYS {
            self.errors.push(FieldError::too_many(field, keys.len(), MAX_KEYS));
            return;
        }
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(FieldError::required(&*field, why));
        }
        let items = path.field("items");
        let item = match props.items() {
            Some(Items::One(item)) => item,
            None => {
                let why = "must have a schema if x-kubernetes-list-type is map";
                self.errors.push(FieldError::required(items.to_string(), why));
                return;
            }
            Some(Items::Many(_)) => {
                let why = "must only have a single schema if x-kubernetes-list-type is map";
                let shown = props.get("items").cloned().unwrap_or_default();
                self.errors.push(FieldError::invalid(items.to_string(), shown, why));
                return;
            }
        };
        if item.kind() != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push(FieldError::invalid(items.field("type").to_string(), item.kind(), why));
            return;
        }
        for (at, key) in keys.iter().enumerate() {
            match item.property(key) {
                None => {
                    let why = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(&*field, keys.clone(), why));
                }
                Some(property) if matches!(property.kind(), "array" | "object") => {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    let place = items.field("properties").key(key).field("type").to_string();
                    self.errors.push(FieldError::invalid(place, item.kind(), why));
                }
                Some(_) => {}
            }
            if keys[..at].contains(key) {
                self.errors.push(FieldError::invalid(&*field, keys.clone(), "must not contain duplicate entries"));
            }
        }
    }

    /// Rules as texts, before they are compiled.
    fn rule_texts(&mut self, props: Props<'_>, written: &[Props<'_>], path: &Path<'_>) {
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let all = path.field("x-kubernetes-validations");
        let followed =
            written.iter().any(|rule| !rule.text("fieldPath").is_empty()) && structure::unsupported(props).is_none();
        for (at, rule) in written.iter().enumerate() {
            if self.errors.len() > structure::ENOUGH {
                return;
            }
            let place = all.index(at);
            let field = |name: &str| place.field(name).to_string();
            let (text, message) = (rule.text("rule").trim(), rule.text("message"));
            let mut complain = |error: FieldError| self.errors.push(error);
            if text.is_empty() {
                complain(FieldError::required(field("rule"), "rule is not specified"));
            } else if !message.is_empty() && message.trim().is_empty() {
                complain(FieldError::invalid(field("message"), message, "must be non-empty if specified"));
            } else if breaks(message.trim()) {
                complain(FieldError::invalid(field("message"), message, "must not contain line breaks"));
            } else if breaks(text) && message.trim().is_empty() {
                let why = "message must be specified if rule contains line breaks";
                complain(FieldError::required(field("message"), why));
            }
            let expression = rule.text("messageExpression");
            if !expression.is_empty() && expression.trim().is_empty() {
                let why = "messageExpression must be non-empty if specified";
                complain(FieldError::required(field("messageExpression"), why));
            }
            if let Some(reason) = rule.get("reason").and_then(Value::as_str)
                && !REASONS.contains(&reason)
            {
                complain(FieldError::not_supported(field("reason"), reason, &REASONS));
            }
            let target = rule.text("fieldPath");
            if target.is_empty() {
                continue;
            }
            if target.trim().is_empty() {
                complain(FieldError::invalid(field("fieldPath"), target, "must be non-empty if specified"));
            }
            if breaks(target) {
                complain(FieldError::invalid(field("fieldPath"), target, "must not contain line breaks"));
            }
            if followed && field_path::follow(target, props, true).is_err() {
                complain(FieldError::invalid(field("fieldPath"), target, "must be a valid path"));
            }
        }
    }
}
