// Derives the facts table of the built-in kinds from the Go types of Kubernetes: one line per type and per field, no prose.
//
//	cd tools/facts && go run .    rewrites the table and the protobuf samples (`make facts`)
//
// The grammar of the table is told in its own head; crates/schema reads it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"sort"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

const head = `# The shapes of the built-in kinds of Kubernetes 1.34, written by tools/facts. Do not edit.
# A type:   NAME [kind=GROUP/VERSION/KIND] [atomic]
# A field:  (one blank) JSONNAME TYPE PROTOBUFTAG FLAGS [list=atomic|set|map] [keys=A,B] [patch=STRATEGY] [merge=KEY] [atomic|granular] [default=JSON] [enum=A|B to the end of the line]
#           JSONNAME ^ means the Go struct is embedded: inline in JSON, a message of its own in protobuf.
#           TYPE is *T (pointer), []T, map:T, a scalar, a special type or NAME; <…> after it is the Go name an error message needs.
#           PROTOBUFTAG 0 means none. FLAGS: e omitempty, z omitzero, r required, - none.
`

// The types with their own JSON form; everything else is what its Go kind says.
var special = map[reflect.Type]string{
	reflect.TypeOf(metav1.Time{}):                                  "time",
	reflect.TypeOf(metav1.MicroTime{}):                             "microtime",
	reflect.TypeOf(metav1.Duration{}):                              "duration",
	reflect.TypeOf(resource.Quantity{}):                            "quantity",
	reflect.TypeOf(intstr.IntOrString{}):                           "intorstring",
	reflect.TypeOf(runtime.RawExtension{}):                         "raw",
	reflect.TypeOf(metav1.FieldsV1{}):                              "fieldsv1",
	reflect.TypeOf(apiextensionsv1.JSON{}):                         "json",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrBool{}):        "schemaorbool",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrArray{}):       "schemaorarray",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrStringArray{}): "schemaorstrings",
}

var definitions = openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })

type walker struct {
	kinds map[reflect.Type]string
	lines map[string][]string
	queue []reflect.Type
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 1 {
		log.Fatal("usage: facts")
	}
	writeTable("../../crates/schema/facts/v1.34.txt")
	writeSamples("../../crates/proto/testdata")
	writeArchive("../../crates/proto/testdata/every-kind.jsonl.gz")
}

func writeTable(path string) {
	w := &walker{kinds: map[reflect.Type]string{}, lines: map[string][]string{}}
	scheme := buildScheme()
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || gvk.Kind == "WatchEvent" {
			continue
		}
		// Every group registers the option kinds of meta/v1; they are looked up by kind alone, whatever group they come with.
		if strings.HasSuffix(t.PkgPath(), "/meta/v1") && gvk.Group != "meta.k8s.io" {
			w.reach(t)
			continue
		}
		w.kinds[t] = fmt.Sprintf("%s/%s/%s", gvk.Group, gvk.Version, gvk.Kind)
		w.reach(t)
	}
	for _, t := range []any{metav1.PartialObjectMetadata{}, metav1.PartialObjectMetadataList{}, metav1.Status{}, metav1.APIGroup{}, metav1.APIGroupList{},
		metav1.APIResourceList{}, metav1.APIVersions{}, metav1.List{}, metav1.Table{}, metav1.TableOptions{}} {
		rt := reflect.TypeOf(t)
		if _, known := w.kinds[rt]; !known {
			group := "meta.k8s.io/v1/"
			if name := rt.Name(); name == "Status" || strings.HasPrefix(name, "API") || name == "List" {
				group = "/v1/"
			}
			w.kinds[rt] = group + rt.Name()
		}
		w.reach(rt)
	}
	for len(w.queue) > 0 {
		t := w.queue[0]
		w.queue = w.queue[1:]
		w.walk(t)
	}
	w.write(path)
}

func buildScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme,
		corev1.AddToScheme, discoveryv1.AddToScheme, eventsv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			log.Fatal(err)
		}
	}
	return scheme
}

func (w *walker) write(path string) {
	names := make([]string, 0, len(w.lines))
	for name := range w.lines {
		names = append(names, name)
	}
	sort.Strings(names)
	file, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(file)
	out.WriteString(head)
	for _, name := range names {
		for _, line := range w.lines[name] {
			out.WriteString(line)
			out.WriteByte('\n')
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
}

// name turns k8s.io/api/core/v1.Pod into core/v1.Pod.
func name(t reflect.Type) string {
	path := t.PkgPath()
	for _, prefix := range []string{"k8s.io/apimachinery/pkg/apis/", "k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/api/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return rest + "." + t.Name()
		}
	}
	log.Fatalf("type %s of package %s has no name in the table", t, path)
	return ""
}

func (w *walker) reach(t reflect.Type) {
	key := name(t)
	if _, seen := w.lines[key]; !seen {
		w.lines[key] = nil
		w.queue = append(w.queue, t)
	}
}

func (w *walker) typeOf(t reflect.Type) string {
	if s, ok := special[t]; ok {
		return s
	}
	named := ""
	if t.Name() != "" && t.PkgPath() != "" {
		named = "<" + t.String() + ">"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + w.typeOf(t.Elem())
	case reflect.Struct:
		w.reach(t)
		return name(t)
	case reflect.Interface:
		return "json"
	case reflect.String:
		return "string" + named
	case reflect.Bool:
		return "bool" + named
	case reflect.Int32, reflect.Int64:
		return t.Kind().String() + named
	case reflect.Float64:
		return "double" + named
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			log.Fatalf("map with keys of %s", t.Key())
		}
		if named == "" && t.Key().PkgPath() != "" {
			named = "<map[" + t.Key().String() + "]" + t.Elem().String() + ">"
		}
		return "map" + named + ":" + w.typeOf(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes" + named
		}
		if _, message := reflect.New(t).Interface().(interface{ ProtoMessage() }); message {
			return "items" + named // a list that is a message with one repeated string in protobuf
		}
		return "[]" + named + w.typeOf(t.Elem())
	}
	log.Fatalf("no word for the type %s", t)
	return ""
}

func (w *walker) walk(t reflect.Type) {
	key := name(t)
	definition := definitions[t.PkgPath()+"."+t.Name()]
	title := key
	if kind, ok := w.kinds[t]; ok {
		title += " kind=" + kind
	}
	if definition.Schema.Extensions["x-kubernetes-map-type"] == "atomic" {
		title += " atomic"
	}
	lines := []string{title}
	for i := range t.NumField() {
		if line := w.field(t.Field(i), definition); line != "" {
			lines = append(lines, " "+line)
		}
	}
	sort.Strings(lines[1:])
	w.lines[key] = lines
}

func (w *walker) field(f reflect.StructField, definition common.OpenAPIDefinition) string {
	tag := strings.Split(f.Tag.Get("json"), ",")
	jsonName, options := tag[0], tag[1:]
	if jsonName == "-" || !f.IsExported() {
		return ""
	}
	number := "0"
	if parts := strings.Split(f.Tag.Get("protobuf"), ","); len(parts) > 1 {
		number = parts[1]
	}
	if f.Anonymous && jsonName == "" {
		return fmt.Sprintf("^ %s %s -", w.typeOf(f.Type), number)
	}
	if jsonName == "" {
		log.Fatalf("field %s has no JSON name", f.Name)
	}
	flags := ""
	for _, option := range options {
		switch option {
		case "omitempty":
			flags += "e"
		case "omitzero":
			flags += "z"
		default:
			log.Fatalf("field %s: JSON option %q", f.Name, option)
		}
	}
	for _, required := range definition.Schema.Required {
		if required == jsonName {
			flags += "r"
		}
	}
	if flags == "" {
		flags = "-"
	}
	parts := []string{jsonName, w.typeOf(f.Type), number, flags}
	property := definition.Schema.Properties[jsonName]
	parts = append(parts, attributes(property)...)
	if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
		parts = append(parts, "patch="+strategy)
	}
	if merge := f.Tag.Get("patchMergeKey"); merge != "" {
		parts = append(parts, "merge="+merge)
	}
	if value := defaultOf(property); value != "" {
		parts = append(parts, "default="+value)
	}
	// Values may hold blanks, so they are the rest of the line.
	if values := enumOf(&property); len(values) > 0 {
		parts = append(parts, "enum="+strings.Join(values, "|"))
	}
	return strings.Join(parts, " ")
}

func attributes(property spec.Schema) (parts []string) {
	if list, ok := property.Extensions["x-kubernetes-list-type"].(string); ok {
		parts = append(parts, "list="+list)
	}
	if keys, ok := property.Extensions["x-kubernetes-list-map-keys"].([]any); ok {
		words := []string{}
		for _, key := range keys {
			words = append(words, key.(string))
		}
		parts = append(parts, "keys="+strings.Join(words, ","))
	}
	if kind, ok := property.Extensions["x-kubernetes-map-type"].(string); ok {
		parts = append(parts, kind) // atomic or granular
	}
	return parts
}

// enumOf finds the values of a field or of what it is a list or map of.
func enumOf(schema *spec.Schema) (values []string) {
	if schema.Items != nil && schema.Items.Schema != nil {
		return enumOf(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		return enumOf(schema.AdditionalProperties.Schema)
	}
	for _, value := range schema.Enum {
		values = append(values, fmt.Sprint(value))
	}
	sort.Strings(values)
	return values
}

// defaultOf leaves out the zero values that the generator writes everywhere.
func defaultOf(property spec.Schema) string {
	if property.Default == nil {
		return ""
	}
	encoded, err := json.Marshal(property.Default)
	if err != nil {
		log.Fatal(err)
	}
	switch string(encoded) {
	case "{}", `""`, "0", "false", "null":
		return ""
	}
	if strings.Contains(string(encoded), " ") {
		log.Fatalf("the default %s holds a blank, which the table cannot say", encoded)
	}
	return string(encoded)
}
