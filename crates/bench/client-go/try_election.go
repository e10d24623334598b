// Leader election and event recording.

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

func leadershipChangesHands(t *trial) {
	told := make(chan string, 10)
	stopFirst := t.candidate("first", told)
	check("who leads", next("a leader", told), "first leads")
	stopSecond := t.candidate("second", told)
	defer stopSecond()
	stopFirst()
	check("who stops", next("an end", told), "first stops")
	check("who leads then", next("another leader", told), "second leads")
	lease := must(t.client.CoordinationV1().Leases(home).Get(t, "lead", metav1.GetOptions{}))
	check("the holder", *lease.Spec.HolderIdentity, "second")
	check("leaders after the first", *lease.Spec.LeaseTransitions, int32(1))
}

func (t *trial) candidate(name string, told chan<- string) (stop func()) {
	ctx, cancel := context.WithCancel(t)
	lock := must(resourcelock.New(resourcelock.LeasesResourceLock, home, "lead", t.client.CoreV1(), t.client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: name}))
	elector := must(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { told <- name + " leads" },
			OnStoppedLeading: func() { told <- name + " stops" },
		},
	}))
	go elector.Run(ctx)
	return cancel
}

func eventsAreRecorded(t *trial) {
	about := t.paint("a", "red")
	about.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	old := record.NewBroadcaster()
	old.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: t.client.CoreV1().Events("")})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "trial"})
	seen := must(t.client.CoreV1().Events(home).Watch(t, metav1.ListOptions{})).ResultChan()
	recorder.Event(about, corev1.EventTypeNormal, "Painted", "red")
	event := next("an event", seen).Object.(*corev1.Event)
	check("the event", []any{event.Reason, event.InvolvedObject.Name, event.Count}, []any{"Painted", "a", int32(1)})
	recorder.Event(about, corev1.EventTypeNormal, "Painted", "red")
	check("again", next("the same event", seen).Object.(*corev1.Event).Count, int32(2))

	recent := events.NewBroadcaster(&events.EventSinkImpl{Interface: t.client.EventsV1()})
	mustDo(recent.StartRecordingToSinkWithContext(t))
	recent.NewRecorder(scheme.Scheme, "example.com/trial").Eventf(about, nil, corev1.EventTypeNormal, "Dried", "Drying", "dry")
	again := next("an event of the new kind", seen).Object.(*corev1.Event)
	check("seen by the old name", []any{again.Reason, again.Action, again.ReportingController}, []any{"Dried", "Drying", "example.com/trial"})
	listed := must(t.client.EventsV1().Events(home).List(t, metav1.ListOptions{FieldSelector: "reason=Dried"}))
	check("and by the new one", len(listed.Items), 1)
	check("about", []any{listed.Items[0].Regarding.Name, listed.Items[0].Note}, []any{"a", "dry"})
}
