// The programs people run against a Kubernetes API, in one: typed and dynamic clients, informers, apply, leader election, a controller
// manager. Every check runs against the server that KUBECONFIG names; the first failure ends the program with its reason.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

type check struct {
	name string
	run  func(context.Context, *rest.Config) error
}

var checks = []check{
	{"typed clients speak protobuf", typedClients},
	{"discovery and the REST mapper find every kind", discovery},
	{"informers start with a watch-list and stay in step", informersBoth},
	{"metadata informers see partial objects", metadataInformers},
	{"apply: ownership, conflicts, force, removal", serverSideApply},
	{"custom resources through the dynamic client", customResources},
	{"a retrying watch resumes where it was", retryingWatch},
	{"leader election hands over", leaderElection},
	{"tokens, reviews, evictions", reviews},
	{"a controller-runtime manager reconciles", manager},
}

func main() {
	klog.SetOutput(os.Stderr)
	ctrllog.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst = 500, 1000
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), 180*time.Second)
		err := c.run(ctx, rest.CopyConfig(config))
		cancel()
		if err != nil {
			fmt.Printf("FAILED %s: %v\n", c.name, err)
			os.Exit(1)
		}
		fmt.Printf("ok %s\n", c.name)
	}
}

// until polls a condition a few times a second.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: did not happen in time", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
