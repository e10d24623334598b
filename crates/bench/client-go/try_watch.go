// Informers, retry watchers and watches, and what becomes of them when a watch breaks or a version is gone.

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/consistencydetector"
	"k8s.io/utils/ptr"
)

// streamed is in the request of a list that comes as events.
const streamed = "sendInitialEvents=true"

// informer follows our config maps; what it tells comes in words.
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
			// A relist tells of everything, changed or not.
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
	for _, flow := range []string{"cut", "end"} {
		// Kubernetes' client takes a watch without events for a failure and lists again.
		last := t.paint("a", flow)
		tells(told, "update a "+flow)
		t.parent(flow + " configmaps")
		t.paint("b", flow)
		t.remove("b")
		tells(told, "add b "+flow, "delete b "+flow)
		check("watches from the last event on", len(t.requests.with("watch=true", "resourceVersion="+last.ResourceVersion+"&")), 1)
	}
	check("streamed lists", len(t.requests.with(streamed)), 1)
}

func anInformerListsAgainWhenItsVersionIsGone(t *trial) {
	t.paint("a", "red")
	t.paint("b", "red")
	t.paint("c", "red")
	told := t.informer()
	tells(told, "there is a red", "there is b red", "there is c red")
	t.parent("stall configmaps")
	t.paint("a", "blue")
	t.remove("b")
	t.paint("d", "blue")
	t.parent("compact")
	t.paint("e", "blue")
	t.parent("cut configmaps")
	seen := map[string]bool{}
	for range 4 {
		seen[next("what has changed", told)] = true
	}
	check("told after the relist", seen, map[string]bool{
		"update a blue": true, "missing default/b": true, "add d blue": true, "add e blue": true,
	})
	check("streamed lists", len(t.requests.with(streamed)), 2)
}

// streamedListsAreWhatListsAre has client-go compare both, which panics if they differ.
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
