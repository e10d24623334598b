// The time from sending a write to its event; src/runtime/latency.rs explains what is timed and how often.

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

const (
	ofAConfigMap = "latency, a config map"
	ofManyPods   = "latency, 16 pods at once"
	// mark is the annotation that identifies the event of a write.
	mark = "write"
	// namespace is that of the written objects.
	namespace    = "bench"
	writes       = 300
	loadedWrites = 1600
	firstWrites  = 50
)

// write patches the object of a writer.
type write func(ctx context.Context, name string, patch []byte) error

// times of one write.
type times struct{ answered, seen time.Duration }

func (p *program) latency(scenario string, pods int) error {
	expected := newExpected()
	p.changed = func(object any) { expected.saw(annotation(object, mark)) }
	write, objects, informer := p.patchPod, pods+writers, allPods
	if scenario == ofAConfigMap {
		write, objects, informer = p.patchConfigMap, 1, allConfigMaps
	}
	if err := p.start(objects, informer); err != nil {
		return err
	}
	if scenario == ofManyPods {
		return manyWriters(write, expected)
	}
	all, err := writeInTurn(0, firstWrites, writes, write, expected)
	reportTimes(all)
	return err
}

func allConfigMaps(factory informers.SharedInformerFactory) cache.SharedIndexInformer {
	return factory.Core().V1().ConfigMaps().Informer()
}

func (p *program) patchPod(ctx context.Context, name string, patch []byte) error {
	_, err := p.client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (p *program) patchConfigMap(ctx context.Context, name string, patch []byte) error {
	_, err := p.client.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// manyWriters runs concurrent writers that share the number of writes.
func manyWriters(write write, expected *expected) error {
	var all []times
	var lock sync.Mutex
	var group sync.WaitGroup
	failures := make(chan error, writers)
	for writer := range writers {
		group.Go(func() {
			timed, err := writeInTurn(writer, (firstWrites+writers-1)/writers, loadedWrites/writers, write, expected)
			lock.Lock()
			defer lock.Unlock()
			all = append(all, timed...)
			if err != nil {
				failures <- err
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		reportTimes(all)
		return nil
	}
}

// writeInTurn continues after both the answer and the event of a write have arrived.
func writeInTurn(writer, first, count int, write write, expected *expected) ([]times, error) {
	var all []times
	name := fmt.Sprintf("latency-%d", writer)
	for turn := range first + count {
		text := fmt.Sprintf("%d-%d-%d", os.Getpid(), writer, turn)
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, mark, text)
		began := time.Now()
		seen := expected.expect(text, began)
		if err := write(context.Background(), name, patch); err != nil {
			return nil, err
		}
		answered := time.Since(began)
		if told := <-seen; turn >= first {
			all = append(all, times{answered, told})
		}
	}
	return all, nil
}

// expected has the marks that were written and not yet seen, and their waiters.
type expected struct {
	lock  sync.Mutex
	marks map[string]waiting
}

type waiting struct {
	since time.Time
	told  chan<- time.Duration
}

func newExpected() *expected {
	return &expected{marks: map[string]waiting{}}
}

func (e *expected) expect(mark string, since time.Time) <-chan time.Duration {
	told := make(chan time.Duration, 1)
	e.lock.Lock()
	defer e.lock.Unlock()
	e.marks[mark] = waiting{since, told}
	return told
}

// saw is called by the handler, and ends the measured time.
func (e *expected) saw(mark string) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if waiting, found := e.marks[mark]; found {
		waiting.told <- time.Since(waiting.since)
		delete(e.marks, mark)
	}
}

func reportTimes(all []times) {
	if len(all) == 0 {
		return
	}
	column := func(of func(times) time.Duration) []time.Duration {
		var column []time.Duration
		for _, times := range all {
			column = append(column, of(times))
		}
		slices.Sort(column)
		return column
	}
	percentile := func(sorted []time.Duration, share int) float64 {
		return sorted[(len(sorted)-1)*share/100].Seconds() * 1e3
	}
	answered := column(func(times times) time.Duration { return times.answered })
	seen := column(func(times times) time.Duration { return times.seen })
	report(percentile(seen, 50), percentile(seen, 99), percentile(answered, 50))
}
