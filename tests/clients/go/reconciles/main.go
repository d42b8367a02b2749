// The other side of bench/reconciles: a reconciler on controller-runtime, as anybody would write it.
//
//	reconciles KUBECONFIG OBJECTS WRITE(0|1)
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type Spec struct {
	Stamp   int64  `json:"stamp"`
	Payload string `json:"payload"`
}

type Status struct {
	Seen map[string]int64 `json:"seen,omitempty"`
}

type Item struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

type ItemList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Item `json:"items"`
}

func (in *Item) copyInto(out *Item) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Status.Seen != nil {
		out.Status.Seen = make(map[string]int64, len(in.Status.Seen))
		for k, v := range in.Status.Seen {
			out.Status.Seen[k] = v
		}
	}
}

func (in *Item) DeepCopyObject() runtime.Object {
	out := new(Item)
	in.copyInto(out)
	return out
}

func (in *ItemList) DeepCopyObject() runtime.Object {
	out := &ItemList{TypeMeta: in.TypeMeta, Items: make([]Item, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		in.Items[i].copyInto(&out.Items[i])
	}
	return out
}

type items struct {
	client.Client
	start   time.Time
	objects int
	write   bool

	lock   sync.Mutex
	seen   map[types.NamespacedName]bool
	cold   bool
	delays []int64
}

func (r *items) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	now := time.Now().UnixNano()
	var item Item
	if err := r.Get(ctx, request.NamespacedName, &item); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if seen, ok := item.Status.Seen["go"]; r.write && (!ok || seen != item.Spec.Stamp) {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"seen": map[string]int64{"go": item.Spec.Stamp}}})
		if err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Status().Patch(ctx, &item, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.cold {
		r.delays = append(r.delays, (now-item.Spec.Stamp)/1000)
	} else if r.seen[request.NamespacedName] = true; len(r.seen) == r.objects {
		r.cold, r.seen = true, nil
		fmt.Printf("cold %v\n", time.Since(r.start).Seconds())
	}
	return ctrl.Result{}, nil
}

func (r *items) report() {
	r.lock.Lock()
	delays := r.delays
	r.delays = nil
	r.lock.Unlock()
	slices.Sort(delays)
	at := func(part float64) int64 {
		if len(delays) == 0 {
			return 0
		}
		return delays[int(float64(len(delays)-1)*part)]
	}
	fmt.Printf("latency %d %d %d %d\n", at(0.5), at(0.99), at(1), len(delays))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	start := time.Now()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err)
	// Without limits of its own, as ours.
	config.QPS, config.Burst = -1, 0
	objects, err := strconv.Atoi(os.Args[2])
	must(err)
	scheme := runtime.NewScheme()
	version := schema.GroupVersion{Group: "bench.muster.dev", Version: "v1"}
	scheme.AddKnownTypes(version, &Item{}, &ItemList{})
	metav1.AddToGroupVersion(scheme, version)
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	must(err)
	reconciler := &items{
		Client: manager.GetClient(), start: start, objects: objects, write: os.Args[3] == "1",
		seen: map[types.NamespacedName]bool{},
	}
	must(ctrl.NewControllerManagedBy(manager).
		For(&Item{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(reconciler))
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if lines.Text() == "report" {
				reconciler.report()
			}
		}
		stop()
	}()
	must(manager.Start(ctx))
}
