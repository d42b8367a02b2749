package main

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var widgets = schema.GroupVersionResource{Group: "clients.muster.dev", Version: "v1", Resource: "widgets"}

func widgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	least := 0.0
	specReplicas := apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: &least, Default: &apiextensionsv1.JSON{Raw: []byte("1")}}
	spec := object(map[string]apiextensionsv1.JSONSchemaProps{
		"replicas": specReplicas,
		"color":    {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"red"`)}, {Raw: []byte(`"blue"`)}}},
	})
	spec.XValidations = apiextensionsv1.ValidationRules{{Rule: "!has(oldSelf.color) || self.color == oldSelf.color", Message: "color is immutable"}}
	root := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   spec,
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer"}, "selector": {Type: "string"}}),
	})
	selector := ".status.selector"
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.clients.muster.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "clients.muster.dev", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ShortNames: []string{"wd"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector},
				},
			}},
		},
	}
}

func customResources(ctx context.Context, config *rest.Config) error {
	definitions, err := apiextensions.NewForConfig(protobuf(rest.CopyConfig(config)))
	if err != nil {
		return err
	}
	crds := definitions.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, widgetDefinition(), metav1.CreateOptions{}); err != nil {
		return err
	}
	err = until(ctx, "the CRD is established", func() (bool, error) {
		crd, err := crds.Get(ctx, "widgets.clients.muster.dev", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	in := client.Resource(widgets).Namespace("default")
	widget := func(name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "clients.muster.dev/v1", "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": spec}}
	}
	var made *unstructured.Unstructured
	// A server may need a moment between Established and the first request.
	err = until(ctx, "the first widget", func() (bool, error) {
		made, err = in.Create(ctx, widget("one", map[string]any{"color": "red", "unknown": true}), metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	replicas, _, _ := unstructured.NestedInt64(made.Object, "spec", "replicas")
	_, unknown, _ := unstructured.NestedFieldNoCopy(made.Object, "spec", "unknown")
	if err := expect(replicas == 1 && !unknown, "not defaulted or not pruned: %v", made.Object["spec"]); err != nil {
		return err
	}
	_, err = in.Create(ctx, widget("wrong", map[string]any{"color": "green"}), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("a wrong color was taken: %v", err)
	}
	_, err = in.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"color":"blue"}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("an immutable field changed: %v", err)
	}
	if _, err := in.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}, "scale"); err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	if _, err := in.Apply(ctx, "one", widget("one", map[string]any{"color": "red"}), metav1.ApplyOptions{FieldManager: "applier"}); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	live, err := in.Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		return err
	}
	_ = unstructured.SetNestedField(live.Object, int64(2), "status", "replicas")
	if live, err = in.UpdateStatus(ctx, live, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if err := expect(live.GetGeneration() == 2, "generation %d after scale and status", live.GetGeneration()); err != nil {
		return err
	}
	if err := crds.Delete(ctx, "widgets.clients.muster.dev", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return until(ctx, "the CRD and its objects are gone", func() (bool, error) {
		_, err := crds.Get(ctx, "widgets.clients.muster.dev", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = in.List(ctx, metav1.ListOptions{})
			return apierrors.IsNotFound(err), nil
		}
		return false, err
	})
}
