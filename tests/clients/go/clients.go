package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	discoveryclient "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

func protobuf(config *rest.Config) *rest.Config {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

func namespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}

func typedClients(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return err
	}
	if err := namespace(ctx, client, "typed"); err != nil {
		return err
	}
	deployments := client.AppsV1().Deployments("typed")
	made, err := deployments.Create(ctx, deployment("web", 2), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	strategy := made.Spec.Strategy.RollingUpdate
	if err := expect(made.Generation == 1 && strategy != nil && strategy.MaxSurge.StrVal == "25%", "defaults are missing: %+v", made.Spec); err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		d.Spec.Template.Spec.Containers[0].Image = "web:2"
		_, err = deployments.Update(ctx, d, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	// A stale version is a conflict that the client recognises.
	made.Labels["stale"] = "true"
	if _, err := deployments.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update gave %v", err)
	}
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 5
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := expect(*d.Spec.Replicas == 5 && d.Generation == 3, "scale: %d replicas, generation %d", *d.Spec.Replicas, d.Generation); err != nil {
		return err
	}
	d.Status.ReadyReplicas, d.Status.Replicas = 3, 5
	if d, err = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := expect(d.Status.ReadyReplicas == 3 && d.Generation == 3, "status: %+v", d.Status); err != nil {
		return err
	}
	patched, err := deployments.Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"}]}}}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if err := expect(len(patched.Spec.Template.Spec.Containers) == 2, "strategic merge replaced the list"); err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets("typed").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": {0, 1, 255}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	secret, err := client.CoreV1().Secrets("typed").Get(ctx, "s", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := expect(string(secret.Data["k"]) == "\x00\x01\xff", "bytes changed on the way: %v", secret.Data); err != nil {
		return err
	}
	for i := range 25 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "page-", Labels: map[string]string{"half": fmt.Sprint(i % 2)}}}
		if _, err := client.CoreV1().ConfigMaps("typed").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	seen, token := 0, ""
	for {
		page, err := client.CoreV1().ConfigMaps("typed").List(ctx, metav1.ListOptions{Limit: 7, Continue: token, LabelSelector: "half"})
		if err != nil {
			return err
		}
		seen += len(page.Items)
		if token = page.Continue; token == "" {
			break
		}
	}
	if err := expect(seen == 25, "paging saw %d of 25", seen); err != nil {
		return err
	}
	if err := client.CoreV1().ConfigMaps("typed").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "half=1"}); err != nil {
		return err
	}
	left, err := client.CoreV1().ConfigMaps("typed").List(ctx, metav1.ListOptions{LabelSelector: "half"})
	if err != nil {
		return err
	}
	if err := expect(len(left.Items) == 13, "deletecollection left %d", len(left.Items)); err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	return deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &foreground})
}

func discovery(_ context.Context, config *rest.Config) error {
	client, err := discoveryclient.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	for kind, resource := range map[schema.GroupKind]string{
		{Kind: "Pod"}:                       "pods",
		{Group: "apps", Kind: "Deployment"}: "deployments",
		{Group: "batch", Kind: "CronJob"}:   "cronjobs",
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:         "clusterroles",
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: "customresourcedefinitions",
	} {
		mapping, err := mapper.RESTMapping(kind)
		if err != nil {
			return err
		}
		if err := expect(mapping.Resource.Resource == resource, "%v maps to %v", kind, mapping.Resource); err != nil {
			return err
		}
	}
	if _, err := client.OpenAPISchema(); err != nil {
		return fmt.Errorf("OpenAPI v2: %w", err)
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	if _, err := paths["apis/apps/v1"].Schema("application/json"); err != nil {
		return fmt.Errorf("OpenAPI v3: %w", err)
	}
	return nil
}

func factoryIn(client kubernetes.Interface, name string) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(name))
}

func follow(ctx context.Context, client kubernetes.Interface, name string) (*counts, error) {
	factory := factoryIn(client, name)
	seen := &counts{}
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(seen.handler()); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("the informer never synced")
	}
	return seen, nil
}

type counts struct{ added, updated, deleted atomic.Int64 }

func (c *counts) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.added.Add(1) },
		UpdateFunc: func(any, any) { c.updated.Add(1) },
		DeleteFunc: func(any) { c.deleted.Add(1) },
	}
}

func (c *counts) reach(ctx context.Context, added, updated, deleted int64) error {
	err := until(ctx, "events", func() (bool, error) {
		return c.added.Load() >= added && c.updated.Load() >= updated && c.deleted.Load() >= deleted, nil
	})
	if err != nil {
		return fmt.Errorf("%w: saw %d added, %d updated, %d deleted", err, c.added.Load(), c.updated.Load(), c.deleted.Load())
	}
	return expect(c.added.Load() == added && c.deleted.Load() == deleted, "saw %d added and %d deleted, not %d and %d", c.added.Load(), c.deleted.Load(), added, deleted)
}

func informersCheck(ctx context.Context, client kubernetes.Interface, name string) error {
	if err := namespace(ctx, client, name); err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(name)
	make := func(n int) error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", n)}}, metav1.CreateOptions{})
		return err
	}
	for n := range 10 {
		if err := make(n); err != nil {
			return err
		}
	}
	seen, err := follow(ctx, client, name)
	if err != nil {
		return err
	}
	for n := 10; n < 20; n++ {
		if err := make(n); err != nil {
			return err
		}
	}
	for n := range 5 {
		if _, err := maps.Patch(ctx, fmt.Sprintf("m-%d", n), types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := maps.Delete(ctx, fmt.Sprintf("m-%d", n), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return seen.reach(ctx, 20, 5, 5)
}

func informersBoth(ctx context.Context, config *rest.Config) error {
	for name, config := range map[string]*rest.Config{"informed-json": rest.CopyConfig(config), "informed-proto": protobuf(rest.CopyConfig(config))} {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		if err := informersCheck(ctx, client, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func metadataInformers(ctx context.Context, config *rest.Config) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	informer := factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("the informer never synced")
	}
	_, err = informer.Lister().Get("default")
	return err
}

func serverSideApply(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := namespace(ctx, client, "applied"); err != nil {
		return err
	}
	deployments := client.AppsV1().Deployments("applied")
	wanted := func(replicas int32, image string) *applyapps.DeploymentApplyConfiguration {
		labels := map[string]string{"app": "web"}
		container := applycore.Container().WithName("web").WithImage(image).WithPorts(applycore.ContainerPort().WithContainerPort(80))
		return applyapps.Deployment("web", "applied").WithLabels(labels).WithSpec(applyapps.DeploymentSpec().
			WithReplicas(replicas).WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(applycore.PodTemplateSpec().WithLabels(labels).WithSpec(applycore.PodSpec().WithContainers(container))))
	}
	one, err := deployments.Apply(ctx, wanted(1, "web:1"), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	again, err := deployments.Apply(ctx, wanted(1, "web:1"), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	if err := expect(one.ResourceVersion == again.ResourceVersion, "the same intent was written twice"); err != nil {
		return err
	}
	_, err = deployments.Apply(ctx, wanted(2, "web:1"), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .spec.replicas`) {
		return fmt.Errorf("no conflict, but %v", err)
	}
	if _, err = deployments.Apply(ctx, wanted(2, "web:1"), metav1.ApplyOptions{FieldManager: "two", Force: true}); err != nil {
		return err
	}
	// What one manager applied can be read back as its configuration.
	live, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	extracted, err := applyapps.ExtractDeployment(live, "two")
	if err != nil {
		return err
	}
	if err := expect(*extracted.Spec.Replicas == 2 && len(extracted.Spec.Template.Spec.Containers) == 1, "extracted %+v", extracted.Spec); err != nil {
		return err
	}
	// The first manager lost replicas; leaving them out now changes nothing, and its own label goes with it.
	without := wanted(0, "web:1")
	without.Spec.Replicas = nil
	after, err := deployments.Apply(ctx, without, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	if err := expect(*after.Spec.Replicas == 2, "a field of another manager was dropped"); err != nil {
		return err
	}
	status := applyapps.Deployment("web", "applied").WithStatus(applyapps.DeploymentStatus().WithReplicas(2).WithObservedGeneration(1))
	if _, err := deployments.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "controller", Force: true}); err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("applied")
	if _, err := maps.Apply(ctx, applycore.ConfigMap("m", "applied").WithData(map[string]string{"a": "1", "b": "2"}), metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return err
	}
	m, err := maps.Apply(ctx, applycore.ConfigMap("m", "applied").WithData(map[string]string{"a": "1"}), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	return expect(len(m.Data) == 1, "what is no longer applied stayed: %v", m.Data)
}

func retryingWatch(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := namespace(ctx, client, "resumed"); err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("resumed")
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	short := int64(1)
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.TimeoutSeconds = &short // every stream ends after a second, the watch goes on
			return maps.Watch(ctx, options)
		},
	})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	go func() {
		for n := range 20 {
			_, _ = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%02d", n)}}, metav1.CreateOptions{})
			_ = until(ctx, "a pause", func() func() (bool, error) {
				turns := 0
				return func() (bool, error) { turns++; return turns > 3, nil }
			}())
		}
	}()
	for n := range 20 {
		select {
		case event := <-watcher.ResultChan():
			m, ok := event.Object.(*corev1.ConfigMap)
			if !ok || event.Type != watch.Added || m.Name != fmt.Sprintf("m-%02d", n) {
				return fmt.Errorf("event %d is %v %v", n, event.Type, event.Object)
			}
		case <-ctx.Done():
			return fmt.Errorf("only %d events came", n)
		}
	}
	return nil
}

func reviews(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return err
	}
	if err := namespace(ctx, client, "reviewed"); err != nil {
		return err
	}
	allowed, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "nodes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := expect(allowed.Status.Allowed, "the administrator may not: %+v", allowed.Status); err != nil {
		return err
	}
	me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := expect(me.Status.UserInfo.Username != "", "who am I: %+v", me.Status); err != nil {
		return err
	}
	if _, err := client.CoreV1().ServiceAccounts("reviewed").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	token, err := client.CoreV1().ServiceAccounts("reviewed").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	robot := rest.AnonymousClientConfig(config)
	robot.BearerToken = token.Status.Token
	as, err := kubernetes.NewForConfig(robot)
	if err != nil {
		return err
	}
	me, err = as.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := expect(me.Status.UserInfo.Username == "system:serviceaccount:reviewed:robot", "the token is %q's", me.Status.UserInfo.Username); err != nil {
		return err
	}
	if _, err := as.CoreV1().Secrets("reviewed").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		return fmt.Errorf("a service account without roles listed secrets: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := client.CoreV1().Pods("reviewed").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return client.CoreV1().Pods("reviewed").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "reviewed"}})
}
