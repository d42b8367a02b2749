package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
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

// The kinds whose samples are committed; `facts samples FOLDER all` writes every kind, for a check by hand.
var sampled = strings.Fields(`v1/Namespace v1/ConfigMap v1/Secret v1/Event events.k8s.io/v1/Event v1/ServiceAccount coordination.k8s.io/v1/Lease
	v1/DeleteOptions v1/Pod v1/Node v1/Service v1/PersistentVolume v1/PersistentVolumeClaim apps/v1/Deployment apps/v1/StatefulSet batch/v1/CronJob
	autoscaling/v2/HorizontalPodAutoscaler policy/v1/Eviction networking.k8s.io/v1/Ingress networking.k8s.io/v1/NetworkPolicy
	discovery.k8s.io/v1/EndpointSlice rbac.authorization.k8s.io/v1/ClusterRole authentication.k8s.io/v1/TokenRequest authentication.k8s.io/v1/TokenReview
	authorization.k8s.io/v1/SubjectAccessReview apiextensions.k8s.io/v1/CustomResourceDefinition v1/ConfigMapList`)

// writeSamples marshals objects with the real serializer: KIND.full (every field set), KIND.zero (pointers to zero values) and with `all` KIND.empty,
// each beside the JSON that Go writes for what it reads back.
func writeSamples(folder string, all bool) {
	scheme := buildScheme()
	wanted := map[string]bool{}
	for _, name := range sampled {
		wanted[name] = true
	}
	serializer := protobuf.NewSerializer(scheme, scheme)
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || gvk.Kind == "WatchEvent" {
			continue
		}
		if !wanted[strings.TrimPrefix(gvk.Group+"/", "/")+gvk.Version+"/"+gvk.Kind] && !all {
			continue
		}
		variants := []string{"full", "zero"}
		if all {
			variants = append(variants, "empty")
		}
		for _, variant := range variants {
			object := reflect.New(t)
			(&filler{variant: variant}).fill(object.Elem(), 0)
			writeSample(folder, gvk, variant, object.Interface().(runtime.Object), serializer)
		}
	}
}

func writeSample(folder string, gvk schema.GroupVersionKind, variant string, object runtime.Object, serializer runtime.Serializer) {
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
	for suffix, content := range map[string][]byte{".pb": body.Bytes(), ".json": append(text, '\n')} {
		if err := os.WriteFile(filepath.Join(folder, name+suffix), content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
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
