package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func leaderElection(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return err
	}
	if err := namespace(ctx, client, "elected"); err != nil {
		return err
	}
	var leader atomic.Value
	candidate := func(ctx context.Context, name string) error {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "elected", "lock", client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
		if err != nil {
			return err
		}
		go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { leader.Store(name) }, OnStoppedLeading: func() {}},
		})
		return nil
	}
	first, resign := context.WithCancel(ctx)
	defer resign()
	if err := candidate(first, "a"); err != nil {
		return err
	}
	if err := until(ctx, "a leads", func() (bool, error) { return leader.Load() == "a", nil }); err != nil {
		return err
	}
	second, stop := context.WithCancel(ctx)
	defer stop()
	if err := candidate(second, "b"); err != nil {
		return err
	}
	resign()
	return until(ctx, "b takes over", func() (bool, error) { return leader.Load() == "b", nil })
}

const finalizer = "clients.muster.dev/copied"

// copier keeps a copy of every ConfigMap labelled copy=me, and removes it with the original.
type copier struct{ client.Client }

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var original corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if original.Labels["copy"] != "me" {
		return ctrl.Result{}, nil
	}
	if !original.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(&original, finalizer)
		return ctrl.Result{}, c.Update(ctx, &original)
	}
	if controllerutil.AddFinalizer(&original, finalizer) {
		if err := c.Update(ctx, &original); err != nil {
			return ctrl.Result{}, err
		}
	}
	duplicate := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: original.Name + "-copy", Namespace: original.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, duplicate, func() error {
		duplicate.Data = original.Data
		return controllerutil.SetControllerReference(&original, duplicate, c.Scheme())
	})
	return ctrl.Result{}, err
}

func manager(ctx context.Context, config *rest.Config) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: true, LeaderElectionID: "copier", LeaderElectionNamespace: "default",
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.ConfigMap{}).Complete(&copier{mgr.GetClient()})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "original", Namespace: "default", Labels: map[string]string{"copy": "me"}}, Data: map[string]string{"a": "1"}}
	if err := direct.Create(ctx, original); err != nil {
		return err
	}
	copied := client.ObjectKey{Namespace: "default", Name: "original-copy"}
	var duplicate corev1.ConfigMap
	err = until(ctx, "the copy", func() (bool, error) {
		err := direct.Get(ctx, copied, &duplicate)
		return err == nil && duplicate.Data["a"] == "1", client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	patch := client.MergeFrom(original.DeepCopy())
	original.Data["a"] = "2"
	if err := direct.Patch(ctx, original, patch); err != nil {
		return err
	}
	err = until(ctx, "the copy follows", func() (bool, error) {
		err := direct.Get(ctx, copied, &duplicate)
		return err == nil && duplicate.Data["a"] == "2", err
	})
	if err != nil {
		return err
	}
	if err := direct.Delete(ctx, original); err != nil {
		return err
	}
	err = until(ctx, "the finalizer lets go", func() (bool, error) {
		err := direct.Get(ctx, client.ObjectKeyFromObject(original), &corev1.ConfigMap{})
		return client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	stop()
	select {
	case err := <-ended:
		return err
	case <-time.After(60 * time.Second):
		return fmt.Errorf("the manager did not stop")
	}
}
