package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The kinds whose samples are committed as files of their own, to be read and to be mutated; those of every kind are in one archive.
var sampled = strings.Fields(`v1/Namespace v1/ConfigMap v1/Secret v1/Event events.k8s.io/v1/Event v1/ServiceAccount coordination.k8s.io/v1/Lease
	v1/DeleteOptions v1/Pod v1/Node v1/Service v1/PersistentVolume v1/PersistentVolumeClaim apps/v1/Deployment apps/v1/StatefulSet batch/v1/CronJob
	autoscaling/v2/HorizontalPodAutoscaler policy/v1/Eviction networking.k8s.io/v1/Ingress networking.k8s.io/v1/NetworkPolicy
	discovery.k8s.io/v1/EndpointSlice rbac.authorization.k8s.io/v1/ClusterRole authentication.k8s.io/v1/TokenRequest authentication.k8s.io/v1/TokenReview
	authorization.k8s.io/v1/SubjectAccessReview apiextensions.k8s.io/v1/CustomResourceDefinition v1/ConfigMapList`)

// sample is an object marshalled with the real serializer, beside the JSON that Go writes for what it reads back.
type sample struct {
	// Name is GROUP-VERSION-KIND.VARIANT: full (every field set), zero (pointers to zero values) or empty.
	Name     string          `json:"name"`
	Protobuf []byte          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

// samplesOf makes the samples of the kinds that are wanted, by name.
func samplesOf(wanted func(schema.GroupVersionKind, reflect.Type) bool, variants ...string) []sample {
	scheme := buildScheme()
	serializer := protobuf.NewSerializer(scheme, scheme)
	var all []sample
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || gvk.Kind == "WatchEvent" || !wanted(gvk, t) {
			continue
		}
		for _, variant := range variants {
			object := reflect.New(t)
			(&filler{variant: variant}).fill(object.Elem(), 0)
			all = append(all, newSample(gvk, variant, object.Interface().(runtime.Object), serializer))
		}
	}
	slices.SortFunc(all, func(a, b sample) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// writeSamples writes the chosen kinds, two files for each sample.
func writeSamples(folder string) {
	wanted := map[string]bool{}
	for _, name := range sampled {
		wanted[name] = true
	}
	chosen := func(gvk schema.GroupVersionKind, _ reflect.Type) bool {
		return wanted[strings.TrimPrefix(gvk.Group+"/", "/")+gvk.Version+"/"+gvk.Kind]
	}
	for _, s := range samplesOf(chosen, "full", "zero") {
		for suffix, content := range map[string][]byte{".pb": s.Protobuf, ".json": append(s.JSON, '\n')} {
			if err := os.WriteFile(filepath.Join(folder, s.Name+suffix), content, 0o644); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// writeArchive writes every kind that is a request body, one JSON document per line. Lists are never sent; the option kinds of meta/v1 come with every
// group and are the same, so one of each will do.
func writeArchive(path string) {
	body := func(gvk schema.GroupVersionKind, t reflect.Type) bool {
		return !strings.HasSuffix(gvk.Kind, "List") && (!strings.HasSuffix(t.PkgPath(), "/meta/v1") || gvk.Group == "" && gvk.Version == "v1")
	}
	var packed bytes.Buffer
	// Without a name or a time: the same samples are the same bytes.
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	lines := json.NewEncoder(writer)
	lines.SetEscapeHTML(false)
	for _, s := range samplesOf(body, "full", "zero", "empty") {
		if err := lines.Encode(s); err != nil {
			log.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(path, packed.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

func newSample(gvk schema.GroupVersionKind, variant string, object runtime.Object, serializer runtime.Serializer) sample {
	object.GetObjectKind().SetGroupVersionKind(gvk)
	var body bytes.Buffer
	if err := serializer.Encode(object, &body); err != nil {
		log.Fatalf("%s: %v", gvk, err)
	}
	back := reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
	if _, _, err := serializer.Decode(body.Bytes(), &gvk, back); err != nil {
		log.Fatalf("%s: %v", gvk, err)
	}
	back.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(back)
	if err != nil {
		log.Fatalf("%s: %v", gvk, err)
	}
	var sorted any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&sorted); err != nil {
		log.Fatal(err)
	}
	if text, err = json.Marshal(sorted); err != nil {
		log.Fatal(err)
	}
	group, _, _ := strings.Cut(gvk.Group, ".")
	name := strings.ToLower(strings.Trim(fmt.Sprintf("%s-%s-%s", group, gvk.Version, gvk.Kind), "-")) + "." + variant
	return sample{Name: name, Protobuf: body.Bytes(), JSON: text}
}

type filler struct {
	variant string
	count   int
}

func (f *filler) fill(v reflect.Value, depth int) {
	if f.variant == "empty" {
		return
	}
	f.count++
	zero := f.variant == "zero"
	if f.special(v, zero, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "TypeMeta" {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		elem := v.Type().Elem()
		// A pointer to the zero time is written as an explicit null, which no reader needs.
		if depth > 14 || zero && (elem == reflect.TypeOf(metav1.Time{}) || elem == reflect.TypeOf(metav1.MicroTime{})) {
			return
		}
		v.Set(reflect.New(elem))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice:
		if depth > 14 {
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if !zero {
				v.SetBytes([]byte{0, 255, byte(f.count)})
			}
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2-f.count%2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		if depth > 14 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for i := range 2 {
			key := reflect.New(v.Type().Key()).Elem()
			key.SetString(fmt.Sprintf("key%d", f.count+i))
			value := reflect.New(v.Type().Elem()).Elem()
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		if !zero {
			v.SetString(fmt.Sprintf("text-%d-é", f.count))
		}
	case reflect.Bool:
		v.SetBool(!zero)
	case reflect.Int32, reflect.Int64:
		if !zero {
			v.SetInt(int64(f.count) * int64(1-2*(f.count%2)) * 1000)
		}
	case reflect.Float64:
		if !zero {
			v.SetFloat(float64(f.count) / 2)
		}
	case reflect.Interface:
	default:
		log.Fatalf("no filling for %s", v.Type())
	}
}

// special fills the types with their own forms; JSON schemas refer to themselves and stay small.
func (f *filler) special(v reflect.Value, zero bool, depth int) bool {
	stamp := time.Unix(1_700_000_000+int64(f.count), 123_456_000)
	switch target := v.Addr().Interface().(type) {
	case *metav1.Time:
		if !zero {
			*target = metav1.NewTime(stamp)
		}
	case *metav1.MicroTime:
		if !zero {
			*target = metav1.NewMicroTime(stamp)
		}
	case *resource.Quantity:
		*target = resource.MustParse([]string{"1500m", "0.5Gi", "2000", "1e3", "12Ki"}[f.count%5])
	case *intstr.IntOrString:
		if f.count%2 == 0 {
			*target = intstr.FromString("25%")
		} else {
			*target = intstr.FromInt32(int32(f.count))
		}
	case *runtime.RawExtension:
		target.Raw = []byte(`{"kind":"Any","list":[1,null,{"a":1.5}]}`)
	case *metav1.FieldsV1:
		target.Raw = []byte(`{"f:data":{".":{},"f:a":{}}}`)
	case *apiextensionsv1.JSON:
		target.Raw = []byte(`{"any":["thing",0]}`)
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		target.Allows = f.count%2 == 0
		if target.Allows {
			target.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		target.Schema = &apiextensionsv1.JSONSchemaProps{Type: "integer"}
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		target.Property = []string{"a", "b"}
	case *apiextensionsv1.JSONSchemaProps:
		return depth > 8
	default:
		return false
	}
	return true
}
