// Informers, retry watchers and watches, when a watch breaks or a version has expired.

package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/consistencydetector"
	"k8s.io/utils/ptr"
)

// streamed is part of the query of a streaming list.
const streamed = "sendInitialEvents=true"

// informer follows our config maps; its events are described as texts.
func (t *trial) informer() <-chan string {
	factory := informers.NewSharedInformerFactoryWithOptions(t.client, 0, informers.WithNamespace(home),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = ours }))
	told := make(chan string, 100)
	informer := factory.Core().V1().ConfigMaps().Informer()
	registration := must(informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if initial {
				told <- "there is " + words(object)
				return
			}
			told <- "add " + words(object)
		},
		UpdateFunc: func(old, object any) {
			// A relist reports every object, changed or not.
			if version(old) != version(object) {
				told <- "update " + words(object)
			}
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				told <- "missing " + unknown.Key
				return
			}
			told <- "delete " + words(object)
		},
	}))
	factory.Start(t.Done())
	cache.WaitFor(t, "the first list", registration.HasSyncedChecker())
	return told
}

func words(object any) string {
	configMap := object.(*corev1.ConfigMap)
	return configMap.Name + " " + configMap.Data["colour"]
}

func version(object any) string {
	return object.(metav1.Object).GetResourceVersion()
}

func tells(told <-chan string, wanted ...string) {
	for _, wanted := range wanted {
		check("the informer's next word", next(wanted, told), wanted)
	}
}

// several returns the next texts, in any order.
func several(told <-chan string, count int) map[string]bool {
	words := map[string]bool{}
	for range count {
		words[next("another word", told)] = true
	}
	return words
}

func anInformerTellsWhatHappens(t *trial) {
	t.paint("a", "red")
	told := t.informer()
	tells(told, "there is a red")
	t.paint("b", "red")
	t.paint("a", "blue")
	t.remove("b")
	tells(told, "add b red", "update a blue", "delete b red")
	unlabelled := must(t.client.CoreV1().ConfigMaps(home).Get(t, "a", metav1.GetOptions{}))
	unlabelled.Labels = nil
	must(t.client.CoreV1().ConfigMaps(home).Update(t, unlabelled, metav1.UpdateOptions{}))
	tells(told, "delete a blue")
	check("lists", len(t.requests.with("GET", "/configmaps?", "limit=")), 0)
	check("streamed lists", len(t.requests.with("/configmaps?", streamed)), 1)
}

func anInformerGoesOnAfterItsWatchBreaks(t *trial) {
	t.paint("a", "red")
	told := t.informer()
	tells(told, "there is a red")
	// After a regular end it resumes from the last event; without an event it would treat the end as a failure.
	last := t.paint("a", "blue")
	tells(told, "update a blue")
	t.parent("end configmaps")
	t.paint("b", "blue")
	t.remove("b")
	tells(told, "add b blue", "delete b blue")
	check("watches from the last event on", len(t.requests.with("watch=true", "resourceVersion="+last.ResourceVersion+"&")), 1)
	check("streamed lists", len(t.requests.with(streamed)), 1)
	// It treats a cut stream as a failure of the server, and lists again.
	t.parent("cut configmaps")
	t.paint("c", "blue")
	tells(told, "add c blue")
	check("streamed lists", len(t.requests.with(streamed)), 2)
}

func anInformerListsAgainWhenItsVersionIsGone(t *trial) {
	t.paint("a", "red")
	t.paint("b", "red")
	t.paint("c", "red")
	told := t.informer()
	check("told at first", several(told, 3), map[string]bool{"there is a red": true, "there is b red": true, "there is c red": true})
	t.parent("stall configmaps")
	t.paint("a", "blue")
	t.remove("b")
	t.paint("d", "blue")
	t.parent("compact")
	t.paint("e", "blue")
	t.parent("cut configmaps")
	check("told after the relist", several(told, 4), map[string]bool{
		"update a blue": true, "missing default/b": true, "add d blue": true, "add e blue": true,
	})
	check("streamed lists", len(t.requests.with(streamed)), 2)
}

// lister lists like clients that do not support streaming lists.
type lister struct{ *cache.ListWatch }

func (lister) IsWatchListSemanticsUnSupported() bool { return true }

func anInformerThatListsInPages(t *trial) {
	for number := range 600 {
		t.paint(fmt.Sprintf("map-%d", number), "red")
	}
	maps := t.client.CoreV1().ConfigMaps(home)
	informer := cache.NewSharedIndexInformer(lister{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			// A list at version "0" would not be paged.
			options.LabelSelector, options.ResourceVersion = ours, ""
			return maps.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = ours
			return maps.Watch(ctx, options)
		},
	}}, &corev1.ConfigMap{}, 0, cache.Indexers{})
	told := make(chan string, 1000)
	registration := must(informer.AddEventHandler(tellingNames(told)))
	go informer.RunWithContext(t)
	cache.WaitFor(t, "the first list", registration.HasSyncedChecker())
	check("told", len(told), 600)
	check("pages", len(t.requests.with("limit=500")), 2)
	for range 600 {
		<-told
	}
	t.paint("z", "red")
	tells(told, "add z")
}

// nothingIsLostInAStorm runs writers while watches break, and compares the handler's state with a list.
func nothingIsLostInAStorm(t *trial) {
	const writers, writes, names = 8, 150, 20
	known, heard := map[string]string{}, make(chan string, writers*writes+1)
	factory := informers.NewSharedInformerFactoryWithOptions(t.client, 0, informers.WithNamespace(home))
	informer := factory.Core().V1().ConfigMaps().Informer()
	must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if _, found := known[name(object)]; found {
				fail("%s was added twice", name(object))
			}
			known[name(object)] = version(object)
			heard <- name(object)
		},
		UpdateFunc: func(old, object any) {
			if known[name(object)] != version(old) || newer(version(old), version(object)) {
				fail("%s went from %s to %s, known was %s", name(object), version(old), version(object), known[name(object)])
			}
			known[name(object)] = version(object)
			heard <- name(object)
		},
		DeleteFunc: func(object any) {
			if _, found := known[name(object)]; !found {
				fail("%s was deleted and is not known", name(object))
			}
			delete(known, name(object))
			heard <- name(object)
		},
	}))
	factory.Start(t.Done())
	factory.WaitForCacheSync(t.Done())
	var storm sync.WaitGroup
	for writer := range writers {
		storm.Go(func() {
			for turn := range writes {
				t.change(fmt.Sprintf("map-%d-%d", writer, turn*7%names), turn)
			}
		})
	}
	// A change that arrives was delivered by the current watch, which is then broken.
	hear := func(name string) {
		for next(name, heard) != name {
		}
	}
	for round, flow := range []string{"cut", "end", "cut"} {
		mark := fmt.Sprintf("round-%d", round)
		t.paint(mark, flow)
		hear(mark)
		t.parent(flow + " configmaps")
	}
	storm.Wait()
	t.paint("the-last", "red")
	hear("the-last")
	listed := map[string]string{}
	for _, object := range must(t.client.CoreV1().ConfigMaps(home).List(t, metav1.ListOptions{})).Items {
		listed[object.Name] = object.ResourceVersion
	}
	check("what the handler knows", known, listed)
	check("what the store has", len(informer.GetStore().ListKeys()), len(listed))
}

// change creates, updates or deletes an object, whichever is possible.
func (t *trial) change(name string, turn int) {
	maps := t.client.CoreV1().ConfigMaps(home)
	_, err := maps.Get(t, name, metav1.GetOptions{})
	switch {
	case err == nil && turn%3 == 0:
		t.remove(name)
	default:
		t.paint(name, fmt.Sprint(turn))
	}
}

func name(object any) string {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	return object.(metav1.Object).GetName()
}

// newer is true if the first version is newer than the second.
func newer(first, second string) bool {
	return must(resourceversion.CompareResourceVersion(first, second)) > 0
}

// streamedListsAreWhatListsAre makes client-go compare both, which panics if they differ.
func streamedListsAreWhatListsAre(t *trial) {
	consistencydetector.SetDataConsistencyDetectionForWatchListEnabledForTest(true)
	for number := range 300 {
		t.paint(fmt.Sprintf("map-%d", number), "red")
	}
	must(t.client.CoreV1().Pods(home).Create(t, pod("p"), metav1.CreateOptions{}))
	must(t.client.AppsV1().Deployments(home).Create(t, deployment("web"), metav1.CreateOptions{}))
	factory := informers.NewSharedInformerFactory(t.client, 0)
	followed := map[string]cache.SharedIndexInformer{
		"configmaps":   factory.Core().V1().ConfigMaps().Informer(),
		"deployments":  factory.Apps().V1().Deployments().Informer(),
		"namespaces":   factory.Core().V1().Namespaces().Informer(),
		"pods":         factory.Core().V1().Pods().Informer(),
		"services":     factory.Core().V1().Services().Informer(),
		"clusterroles": factory.Rbac().V1().ClusterRoles().Informer(),
		"leases":       factory.Coordination().V1().Leases().Informer(),
	}
	factory.Start(t.Done())
	factory.WaitForCacheSync(t.Done())
	for resource := range followed {
		check("streamed lists of "+resource, len(t.requests.with("/"+resource+"?", streamed)), 1)
		check("lists to compare with", len(t.requests.with("/"+resource+"?", "resourceVersionMatch=Exact")), 1)
	}
}

func initialEventsEndWithABookmark(t *trial) {
	t.paint("a", "red")
	last := t.paint("b", "red")
	options := metav1.ListOptions{
		LabelSelector: ours, AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	events := must(t.client.CoreV1().ConfigMaps(home).Watch(t, options)).ResultChan()
	check("first", inWords(next("a", events)), "ADDED a red")
	check("second", inWords(next("b", events)), "ADDED b red")
	bookmark := next("the bookmark", events)
	check("third", bookmark.Type, watch.Bookmark)
	marked := bookmark.Object.(*corev1.ConfigMap)
	check("its annotations", marked.Annotations, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	check("its version", marked.ResourceVersion, last.ResourceVersion)
	t.paint("b", "blue")
	check("and then", inWords(next("b", events)), "MODIFIED b blue")

	options.ResourceVersionMatch = ""
	checkRefusal[watch.Interface]("initial events without a match", apierrors.IsInvalid)(t.client.CoreV1().ConfigMaps(home).Watch(t, options))
	options.AllowWatchBookmarks, options.SendInitialEvents = false, nil
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	checkRefusal[watch.Interface]("a match without initial events", apierrors.IsInvalid)(t.client.CoreV1().ConfigMaps(home).Watch(t, options))
}

func inWords(event watch.Event) string {
	if configMap, ok := event.Object.(*corev1.ConfigMap); ok {
		return string(event.Type) + " " + words(configMap)
	}
	return fmt.Sprint(event)
}

func (t *trial) retryWatcher(version string) *watchtools.RetryWatcher {
	watching := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = ours
		return t.client.CoreV1().ConfigMaps(home).Watch(ctx, options)
	}
	return must(watchtools.NewRetryWatcherWithContext(t, version, &cache.ListWatch{WatchFuncWithContext: watching}))
}

func aRetryWatcherGoesOn(t *trial) {
	events := t.retryWatcher(t.paint("a", "red").ResourceVersion).ResultChan()
	for _, flow := range []string{"cut", "end"} {
		t.paint("a", flow)
		t.paint("b", flow)
		check("an event", inWords(next("a", events)), "MODIFIED a "+flow)
		check("an event", inWords(next("b", events)), "ADDED b "+flow)
		t.parent(flow + " configmaps")
		t.remove("b")
		check("the event after", inWords(next("b", events)), "DELETED b "+flow)
	}
}

func aRetryWatcherHearsThatItsVersionIsGone(t *trial) {
	old := t.paint("a", "red")
	t.paint("a", "green")
	t.paint("a", "blue")
	t.parent("compact")
	t.paint("b", "blue")
	watcher := t.retryWatcher(old.ResourceVersion)
	event := next("the end", watcher.ResultChan())
	check("the last event", event.Type, watch.Error)
	check("it is about an old version", apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), true)
	<-watcher.Done()
}

func aWatchFollowsItsSelector(t *trial) {
	pods := t.client.CoreV1().Pods(home)
	start := must(pods.List(t, metav1.ListOptions{})).ResourceVersion
	events := must(pods.Watch(t, metav1.ListOptions{
		ResourceVersion: start, LabelSelector: "tier in (web)", FieldSelector: "spec.nodeName=n1",
	})).ResultChan()
	seen := func(wanted watch.EventType) *corev1.Pod {
		event := next("an event", events)
		check("the event", event.Type, wanted)
		return event.Object.(*corev1.Pod)
	}
	label := func(name, tier string) *corev1.Pod {
		old := must(pods.Get(t, name, metav1.GetOptions{}))
		old.Labels = map[string]string{"tier": tier}
		return must(pods.Update(t, old, metav1.UpdateOptions{}))
	}
	must(pods.Create(t, pod("p"), metav1.CreateOptions{}))
	label("p", "web")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	mustDo(pods.Bind(t, binding, metav1.CreateOptions{}))
	check("the bound pod's node", seen(watch.Added).Spec.NodeName, "n1")
	left := label("p", "data")
	gone := seen(watch.Deleted)
	check("the version at which it left", gone.ResourceVersion, left.ResourceVersion)
	check("its labels before", gone.Labels, map[string]string{"tier": "web"})
	label("p", "web")
	seen(watch.Added)
	mustDo(pods.Delete(t, "p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	check("the time it is given", *seen(watch.Modified).DeletionGracePeriodSeconds, int64(0))
	seen(watch.Deleted)

	brief := must(pods.Watch(t, metav1.ListOptions{ResourceVersion: start, LabelSelector: "tier=none", TimeoutSeconds: ptr.To(int64(1))}))
	for event := range brief.ResultChan() {
		fail("a brief watch said %v", event)
	}
}
