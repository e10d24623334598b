// A shared informer with one handler, as in src/runtime/our_client.rs and kube_client.rs.

package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// writers is the number of pods for writers in the server; see written.rs of bench-codec.
const writers = 16

// patience is the timeout of a relist, including client-go's backoff.
const patience = 2 * time.Minute

// glance is the polling interval of a store: client-go has no notification.
const glance = 5 * time.Millisecond

// program is the informer and its event handler.
type program struct {
	client       *kubernetes.Clientset
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	told         atomic.Int64
	// changed handles an event after the initial sync.
	changed func(object any)
}

func runInformer(scenario, kubeconfig, podCount string) error {
	began := time.Now()
	pods, err := strconv.Atoi(podCount)
	if err != nil {
		return err
	}
	client, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	program := &program{client: client}
	switch {
	case scenario == "sync":
		return program.sync(began, pods)
	case scenario == "events":
		return program.events(pods)
	case strings.HasPrefix(scenario, "latency"):
		return program.latency(scenario, pods)
	case strings.HasPrefix(scenario, "relist"):
		return program.relist(pods)
	}
	return fmt.Errorf("no such scenario: %s", scenario)
}

// start returns after the handler was called for every object.
func (p *program) start(expected int, informer func(informers.SharedInformerFactory) cache.SharedIndexInformer) error {
	factory := informers.NewSharedInformerFactory(p.client, 0)
	p.informer = informer(factory)
	registration, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.told.Add(1) },
		UpdateFunc: func(_, object any) { p.changed(object) },
	})
	if err != nil {
		return err
	}
	p.registration = registration
	factory.Start(context.Background().Done())
	cache.WaitFor(context.Background(), "the first list", registration.HasSyncedChecker())
	if told := int(p.told.Load()); told != expected {
		return fmt.Errorf("%d objects", told)
	}
	return nil
}

func allPods(factory informers.SharedInformerFactory) cache.SharedIndexInformer {
	return factory.Core().V1().Pods().Informer()
}

func (p *program) sync(began time.Time, pods int) error {
	if err := p.start(pods+writers, allPods); err != nil {
		return err
	}
	wall, cpu := time.Since(began), cpuTime()
	peak, err := peakMegabytes()
	report(wall.Seconds(), cpu.Seconds(), peak)
	return err
}

func (p *program) events(expected int) error {
	seen, all := 0, make(chan time.Duration, 1)
	p.changed = func(any) {
		if seen++; seen == expected {
			all <- cpuTime()
		}
	}
	if err := p.start(expected+writers, allPods); err != nil {
		return err
	}
	began, cpu := time.Now(), cpuTime()
	say("synced")
	cpu = <-all - cpu
	if _, err := hear(); err != nil {
		return err
	}
	report(float64(expected)/cpu.Seconds()/1e3, time.Since(began).Seconds())
	return nil
}

func (p *program) relist(pods int) error {
	p.changed = func(any) {}
	if err := p.start(pods+writers, allPods); err != nil {
		return err
	}
	// No handler is registered, as with ours, and garbage of the first list is freed before memory is measured.
	if err := p.informer.RemoveEventHandler(p.registration); err != nil {
		return err
	}
	debug.FreeOSMemory()
	if err := forgetPeak(); err != nil {
		return err
	}
	before, err := residentMegabytes()
	if err != nil {
		return err
	}
	cpu := cpuTime()
	say("synced")
	version, err := hear()
	if err != nil {
		return err
	}
	if err := p.waitFor(version); err != nil {
		return err
	}
	cpu = cpuTime() - cpu
	peak, err := peakMegabytes()
	report(cpu.Seconds(), peak-before, before)
	return err
}

// waitFor waits until the store has the write of a version.
func (p *program) waitFor(version string) error {
	wanted, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return err
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(glance) {
		reached, err := strconv.ParseUint(p.informer.GetStore().LastStoreSyncResourceVersion(), 10, 64)
		if err == nil && reached >= wanted {
			return nil
		}
	}
	return fmt.Errorf("no relist")
}

// annotation returns an annotation of any object of an informer.
func annotation(object any, name string) string {
	if object, ok := object.(metav1.Object); ok {
		return object.GetAnnotations()[name]
	}
	return ""
}
