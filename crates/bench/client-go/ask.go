// Lists, watches and single requests, as in src/client/cases.rs: one of them per process.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

const (
	watchCount = 50
	smallPage  = 100
	getCount   = 4_000
)

// figures are the measurements of a case, with the names of cases.rs.
type figures struct {
	WallMs  float64 `json:"wall_ms"`
	CPUMs   float64 `json:"cpu_ms"`
	PeakMB  float64 `json:"peak_mb"`
	Sockets int     `json:"sockets"`
}

// ask runs a case and prints its figures. The result stays in memory until everything is measured.
func ask(what, kubeconfig string) error {
	began, cpu := time.Now(), cpuTime()
	kept, err := answer(context.Background(), what, kubeconfig)
	if err != nil {
		return err
	}
	took := figures{WallMs: time.Since(began).Seconds() * 1e3, CPUMs: (cpuTime() - cpu).Seconds() * 1e3}
	if took.PeakMB, err = peakMegabytes(); err != nil {
		return err
	}
	if took.Sockets, err = openSockets(); err != nil {
		return err
	}
	defer func() { _ = kept }()
	return json.NewEncoder(os.Stdout).Encode(took)
}

func answer(ctx context.Context, what, kubeconfig string) (any, error) {
	if what == "pods of any kind" || what == "namespaces of any kind" {
		return listAny(ctx, what, kubeconfig)
	}
	client, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	switch what {
	case "pods":
		return client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	case "namespaces":
		return client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	case "namespaces in pages":
		return client, namespacesInPages(ctx, client)
	case "one get":
		return client, get(ctx, client, 1, 1)
	case "gets":
		return client, get(ctx, client, getCount, 1)
	case "gets, 16 at once":
		return client, get(ctx, client, getCount, 16)
	case "watches":
		return watches(ctx, client)
	}
	return nil, fmt.Errorf("no such question: %s", what)
}

// listAny lists with the dynamic client, which uses JSON.
func listAny(ctx context.Context, what, kubeconfig string) (any, error) {
	config, err := config(kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if what == "namespaces of any kind" {
		resource.Resource = "namespaces"
	}
	return client.Resource(resource).List(ctx, metav1.ListOptions{})
}

func namespacesInPages(ctx context.Context, client *kubernetes.Clientset) error {
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Namespaces().List(ctx, options)
	}
	pages := pager.New(page)
	pages.PageSize = smallPage
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(runtime.Object) error { return nil })
}

func get(ctx context.Context, client *kubernetes.Clientset, gets, atOnce int) error {
	var left atomic.Int64
	left.Store(int64(gets))
	var group sync.WaitGroup
	failures := make(chan error, atOnce)
	for range atOnce {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

// watches opens watches and waits for an event on each.
func watches(ctx context.Context, client *kubernetes.Clientset) (any, error) {
	var open []any
	for range watchCount {
		watch, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		if _, more := <-watch.ResultChan(); !more {
			return nil, fmt.Errorf("a watch ended")
		}
		open = append(open, watch)
	}
	return open, nil
}
