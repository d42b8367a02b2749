//! Types and fields of the built-in kinds, found by name or by group, version and kind.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::table;

const TABLE: &str = include_str!("../facts/v1.34.txt");

/// Every type of the table. `Facts::builtin()` is shared by the whole process.
#[derive(Debug)]
pub struct Facts {
    /// Sorted; the place of a name is its `TypeId`, here and in the next two.
    pub(crate) names: Vec<&'static str>,
    /// The lines of each type.
    pub(crate) blocks: Vec<&'static str>,
    /// Filled on first use: a server that serves ten kinds does not pay for five hundred types.
    pub(crate) types: Vec<OnceLock<Type>>,
    /// Sorted by group, version, kind.
    pub(crate) kinds: Vec<(Kind, TypeId)>,
}

/// The place of a type in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub(crate) u16);

/// Group, version and kind of a type that can stand alone in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
}

#[derive(Debug)]
pub struct Type {
    pub id: TypeId,
    /// `core/v1.ConfigMap`
    pub name: &'static str,
    pub kind: Option<Kind>,
    /// Server-side apply treats a value of this type as one leaf.
    pub atomic: bool,
    /// The JSON fields, embedded structs flattened, sorted by name.
    pub fields: Vec<Field>,
    /// The protobuf members, sorted by tag.
    pub parts: Vec<Part>,
    /// Indices of the fields that Go writes even when the body did not name them.
    pub(crate) always: Vec<u16>,
    pub(crate) blank: OnceLock<Map<String, Value>>,
}

/// One member of a type's protobuf message.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub tag: u32,
    pub of: PartOf,
}

#[derive(Clone, Copy, Debug)]
pub enum PartOf {
    /// Index into `Type::fields`.
    Field(u16),
    /// An embedded Go struct: a message here, but its fields are the type's own in JSON.
    Embedded(TypeId),
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// 0 when the field does not travel in protobuf.
    pub tag: u32,
    pub omit_empty: bool,
    pub omit_zero: bool,
    pub required: bool,
    pub list_type: Option<ListType>,
    /// Keys of a list of `ListType::Map`.
    pub list_keys: Vec<&'static str>,
    pub patch_strategy: Option<&'static str>,
    pub merge_key: Option<&'static str>,
    /// Server-side apply treats the map or struct as one leaf.
    pub atomic: bool,
    /// It does not, whatever the type says.
    pub granular: bool,
    /// The values upstream documents, separated by `|`; of the elements when the field is a list or map.
    pub(crate) enumeration: Option<&'static str>,
    /// JSON text of the default, when it is not simply the zero value.
    pub(crate) default: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

/// What a value looks like: its form, and whether Go holds it by pointer (then an explicit zero is kept).
#[derive(Clone, Debug)]
pub struct Shape {
    pub form: Form,
    pub pointer: bool,
    /// The Go name of a named scalar, list or map: only error messages need it.
    pub(crate) go: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub enum Form {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON object, kept as it came.
    Raw,
    FieldsV1,
    /// Any JSON value, kept as it came.
    Json,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
    /// A list of strings that is a message with one repeated member in protobuf.
    Items,
    Struct(TypeId),
    List(Box<Shape>),
    Map(Box<Shape>),
}

impl Facts {
    /// The table of Kubernetes 1.34, indexed on first use.
    #[allow(clippy::expect_used)] // the table is part of the program; a test reads all of it
    pub fn builtin() -> &'static Facts {
        static FACTS: OnceLock<Facts> = OnceLock::new();
        FACTS.get_or_init(|| table::index(TABLE).expect("the embedded facts table is well formed"))
    }

    /// The type of a kind. The option kinds of meta/v1 come with the group of whatever they are sent to, so they are found by kind alone.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Type> {
        let wanted = (group, version, kind);
        match self.kinds.binary_search_by(|(k, _)| (k.group, k.version, k.kind).cmp(&wanted)) {
            Ok(at) => Some(self.get(self.kinds[at].1)),
            Err(_) => match kind {
                "DeleteOptions" | "CreateOptions" | "UpdateOptions" | "PatchOptions" | "GetOptions" | "ListOptions" => {
                    self.named(&format!("meta/v1.{kind}"))
                }
                "Status" => self.named("meta/v1.Status"),
                _ => None,
            },
        }
    }

    /// The type named as in the table: `core/v1.PodSpec`, `meta/v1.ObjectMeta`.
    pub fn named(&self, name: &str) -> Option<&Type> {
        let at = self.names.binary_search(&name).ok()?;
        u16::try_from(at).ok().map(|at| self.get(TypeId(at)))
    }

    #[allow(clippy::expect_used)] // as above
    pub fn get(&self, id: TypeId) -> &Type {
        self.types[usize::from(id.0)]
            .get_or_init(|| table::read(self, id).expect("the embedded facts table is well formed"))
    }

    /// All types; reads those that nobody asked for yet.
    pub fn types(&self) -> impl Iterator<Item = &Type> {
        (0..).map(TypeId).take(self.types.len()).map(|id| self.get(id))
    }

    /// The struct a field holds, by itself or as element of its list or map: the next step of a path into an object.
    pub fn inner(&self, shape: &Shape) -> Option<&Type> {
        match &shape.form {
            Form::Struct(id) => Some(self.get(*id)),
            Form::List(element) | Form::Map(element) => self.inner(element),
            Form::SchemaOrBool | Form::SchemaOrArray | Form::SchemaOrStrings => {
                self.named("apiextensions/v1.JSONSchemaProps")
            }
            _ => None,
        }
    }

    /// The value Go writes for a field that was never set.
    pub fn zero(&self, shape: &Shape) -> Value {
        if shape.pointer {
            return Value::Null;
        }
        match &shape.form {
            Form::String => Value::String(String::new()),
            Form::Bool => Value::Bool(false),
            Form::Int32 | Form::Int64 | Form::Double | Form::IntOrString => Value::from(0),
            Form::Quantity => Value::from("0"),
            Form::Struct(id) => {
                let mut map = Map::new();
                self.fill(self.get(*id), &mut map);
                Value::Object(map)
            }
            _ => Value::Null,
        }
    }

    /// What Go writes for a value of the type into which nothing was put; made once.
    pub fn blank<'f>(&self, ty: &'f Type) -> &'f Map<String, Value> {
        ty.blank.get_or_init(|| {
            let mut map = Map::new();
            self.fill(ty, &mut map);
            map
        })
    }

    /// Adds what Go writes although the body did not name it: fields without omitempty, and structs held by value.
    pub(crate) fn fill(&self, ty: &Type, map: &mut Map<String, Value>) {
        for at in &ty.always {
            let field = &ty.fields[usize::from(*at)];
            if !map.contains_key(field.name) {
                map.insert(field.name.to_owned(), self.zero(&field.shape));
            }
        }
    }
}

impl Type {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|f| f.name.cmp(name)).ok().map(|at| &self.fields[at])
    }

    /// The protobuf member with this tag.
    pub fn part(&self, tag: u32) -> Option<PartOf> {
        self.parts.binary_search_by(|p| p.tag.cmp(&tag)).ok().map(|at| self.parts[at].of)
    }

    /// The name without package and version: `ConfigMap`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, short)| short)
    }

    /// The name Go prints: `v1.ConfigMap`.
    pub(crate) fn go_name(&self) -> &'static str {
        self.name.rsplit_once('/').map_or(self.name, |(_, short)| short)
    }
}

impl Field {
    pub fn enumeration(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.enumeration.into_iter().flat_map(|values| values.split('|'))
    }

    pub fn default(&self) -> Option<Value> {
        self.default.and_then(|text| serde_json::from_str(text).ok())
    }

    /// Whether Go leaves this value out when it writes the field.
    pub fn omits(&self, value: &Value) -> bool {
        let empty = match value {
            Value::Null => true,
            _ if self.shape.pointer => false,
            Value::Bool(on) => !on,
            Value::Number(n) => n.as_i64() == Some(0) || n.as_f64() == Some(0.0),
            Value::String(s) => s.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
        };
        // omitempty never empties a struct held by value: it has no empty form in Go.
        empty && (self.omit_zero || (self.omit_empty && !self.by_value_struct()))
    }

    pub(crate) fn written_always(&self) -> bool {
        !self.omit_zero && (!self.omit_empty || self.by_value_struct())
    }

    fn by_value_struct(&self) -> bool {
        let structural = matches!(
            self.shape.form,
            Form::Struct(_)
                | Form::Time
                | Form::MicroTime
                | Form::Quantity
                | Form::IntOrString
                | Form::Raw
                | Form::FieldsV1
                | Form::Json
                | Form::SchemaOrBool
                | Form::SchemaOrArray
                | Form::SchemaOrStrings
        );
        structural && !self.shape.pointer
    }
}

impl Shape {
    /// The type as Go prints it in a mismatch: `map[string]string`, `[]v1.Container`, `v1.SecretType`.
    pub(crate) fn go_type(&self, facts: &Facts) -> String {
        let text = match (&self.form, self.go) {
            (_, Some(named)) => named,
            (Form::String, _) => "string",
            (Form::Bool, _) => "bool",
            (Form::Int32, _) => "int32",
            (Form::Int64, _) => "int64",
            (Form::Double, _) => "float64",
            (Form::Bytes, _) => "[]uint8",
            (Form::Time, _) => "v1.Time",
            (Form::MicroTime, _) => "v1.MicroTime",
            (Form::Quantity, _) => "resource.Quantity",
            (Form::IntOrString, _) => "intstr.IntOrString",
            (Form::Raw, _) => "runtime.RawExtension",
            (Form::FieldsV1, _) => "v1.FieldsV1",
            (Form::Json, _) => "v1.JSON",
            (Form::SchemaOrBool, _) => "v1.JSONSchemaPropsOrBool",
            (Form::SchemaOrArray, _) => "v1.JSONSchemaPropsOrArray",
            (Form::SchemaOrStrings, _) => "v1.JSONSchemaPropsOrStringArray",
            (Form::Items, _) => "[]string",
            (Form::Struct(id), _) => facts.get(*id).go_name(),
            (Form::List(element), _) => return format!("[]{}", element.go_element(facts)),
            (Form::Map(element), _) => return format!("map[string]{}", element.go_element(facts)),
        };
        text.to_owned()
    }

    fn go_element(&self, facts: &Facts) -> String {
        let star = if self.pointer { "*" } else { "" };
        format!("{star}{}", self.go_type(facts))
    }
}
