// Benchmarks without a server, as in src/runtime/local.rs: reads of a store while it is written to, keys through a
// queue, and workers that drain a backlog. A child runs one case, one round per input line, so that the peers can take
// turns.

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// As in local.rs.
const (
	readCount   = 200_000
	lookupCount = 200
	backlog     = 100_000
	cycleCount  = 2_000_000
	workers     = 16
	apps        = 30
	changedPods = 1_000
)

// round measures once.
type round func() []float64

func runLocal(name, argument string) error {
	round, err := prepare(name, argument)
	if err != nil {
		return err
	}
	say("ready")
	for input.Scan() {
		report(round()...)
	}
	return input.Err()
}

func prepare(name, argument string) (round, error) {
	switch name {
	case "reads":
		return reads(argument)
	case "cycles":
		behind, err := strconv.Atoi(argument)
		return func() []float64 { return cycles(behind) }, err
	case "through":
		return through, nil
	case "drain":
		return drain()
	}
	return nil, fmt.Errorf("no such case: %s", name)
}

// reads looks objects up while another goroutine changes the store continuously.
func reads(file string) (round, error) {
	pods, err := readPods(file)
	if err != nil {
		return nil, err
	}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"app": byApp})
	if err := store.Replace(pods, "1"); err != nil {
		return nil, err
	}
	keys := store.ListKeys()
	return func() []float64 {
		stop := writeWithoutPause(store, pods[:min(len(pods), changedPods)])
		defer stop()
		gets := timed(readCount, func(turn int) {
			_, _, _ = store.GetByKey(keys[turn*7919%len(keys)])
		})
		lookups := timed(lookupCount, func(turn int) {
			_, _ = store.ByIndex("app", "app-"+strconv.Itoa(turn%apps))
		})
		return []float64{nanos(gets, 500), nanos(gets, 999), nanos(lookups, 500) / 1e3}
	}, nil
}

func readPods(file string) ([]any, error) {
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	decoder := json.NewDecoder(bufio.NewReader(text))
	var pods []any
	for decoder.More() {
		pod := &corev1.Pod{}
		if err := decoder.Decode(pod); err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func byApp(object any) ([]string, error) {
	return []string{object.(*corev1.Pod).Labels["app"]}, nil
}

// writeWithoutPause returns once the writer runs; the returned function stops it.
func writeWithoutPause(store cache.Store, pods []any) (stop func()) {
	var done atomic.Bool
	var writer sync.WaitGroup
	begun := make(chan struct{})
	writer.Go(func() {
		close(begun)
		for turn := 0; !done.Load(); turn++ {
			if err := store.Update(pods[turn%len(pods)]); err != nil {
				panic(err)
			}
		}
	})
	<-begun
	return func() {
		done.Store(true)
		writer.Wait()
	}
}

// timed returns the durations of the calls, sorted.
func timed(count int, call func(turn int)) []time.Duration {
	all := make([]time.Duration, count)
	for turn := range all {
		began := time.Now()
		call(turn)
		all[turn] = time.Since(began)
	}
	slices.Sort(all)
	return all
}

func nanos(sorted []time.Duration, perMille int) float64 {
	return float64(sorted[(len(sorted)-1)*perMille/1000].Nanoseconds())
}

// cycles measures add, get and done of one key after another on one thread, in millions per second of CPU time.
func cycles(behind int) []float64 {
	queue := workqueue.NewTyped[uint64]()
	defer queue.ShutDown()
	for key := range behind {
		queue.Add(uint64(key))
	}
	began := cpuTime()
	for key := range uint64(cycleCount) {
		queue.Add(uint64(behind) + key)
		next, _ := queue.Get()
		queue.Done(next)
	}
	return []float64{cycleCount / (cpuTime() - began).Seconds() / 1e6}
}

// through adds all keys and then takes them out, in milliseconds of CPU time.
func through() []float64 {
	began := cpuTime()
	queue := workqueue.NewTyped[int]()
	for key := range backlog {
		queue.Add(key)
	}
	for range backlog {
		next, _ := queue.Get()
		queue.Done(next)
	}
	queue.ShutDown()
	return []float64{(cpuTime() - began).Seconds() * 1e3}
}

// drain runs workers on a backlog: each looks its object up, yields once, and is done.
func drain() (round, error) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for number := range backlog {
		name, namespace := fmt.Sprintf("map-%d", number), fmt.Sprintf("ns-%d", number%50)
		object := metav1.ObjectMeta{Name: name, Namespace: namespace, ResourceVersion: "1"}
		if err := store.Add(&corev1.ConfigMap{ObjectMeta: object}); err != nil {
			return nil, err
		}
	}
	return func() []float64 {
		began, cpu := time.Now(), cpuTime()
		queue := workqueue.NewTyped[string]()
		for _, key := range store.ListKeys() {
			queue.Add(key)
		}
		var group sync.WaitGroup
		for range workers {
			group.Go(func() { work(queue, store) })
		}
		queue.ShutDownWithDrain()
		group.Wait()
		return []float64{time.Since(began).Seconds() * 1e3, (cpuTime() - cpu).Seconds() * 1e3}
	}, nil
}

func work(queue *workqueue.Typed[string], store cache.Store) {
	for {
		key, ended := queue.Get()
		if ended {
			return
		}
		_, _, _ = store.GetByKey(key)
		runtime.Gosched()
		queue.Done(key)
	}
}
