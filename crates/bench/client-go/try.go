// Compatibility trials: the server as client-go uses it. A trial has its own server, and ends the process with a
// message if that server does not behave as Kubernetes' does. What a client cannot do to a server, such as breaking its
// watches or compacting its history, it requests from its parent, tests/client_go.rs.

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// forever is a timeout longer than anything that succeeds.
const forever = time.Minute

// home is the namespace of the objects of trials; ours is the label that distinguishes them from default objects.
const (
	home = "default"
	ours = "team=ours"
)

var trials = map[string]func(*trial){
	"an_informer_tells_what_happens":                   anInformerTellsWhatHappens,
	"an_informer_goes_on_after_its_watch_breaks":       anInformerGoesOnAfterItsWatchBreaks,
	"an_informer_lists_again_when_its_version_is_gone": anInformerListsAgainWhenItsVersionIsGone,
	"an_informer_that_lists_in_pages":                  anInformerThatListsInPages,
	"nothing_is_lost_in_a_storm":                       nothingIsLostInAStorm,
	"streamed_lists_are_what_lists_are":                streamedListsAreWhatListsAre,
	"initial_events_end_with_a_bookmark":               initialEventsEndWithABookmark,
	"a_retry_watcher_goes_on":                          aRetryWatcherGoesOn,
	"a_retry_watcher_hears_that_its_version_is_gone":   aRetryWatcherHearsThatItsVersionIsGone,
	"a_watch_follows_its_selector":                     aWatchFollowsItsSelector,
	"lists_are_of_the_version_asked_for":               listsAreOfTheVersionAskedFor,
	"a_pager_sees_everything_once":                     aPagerSeesEverythingOnce,
	"refusals_are_what_they_should_be":                 refusalsAreWhatTheyShouldBe,
	"stale_writes_are_refused":                         staleWritesAreRefused,
	"patches_of_every_kind":                            patchesOfEveryKind,
	"apply_knows_who_wrote_what":                       applyKnowsWhoWroteWhat,
	"deletion_waits_for_finalizers":                    deletionWaitsForFinalizers,
	"rights_of_another_user":                           rightsOfAnotherUser,
	"subresources":                                     subresources,
	"a_busy_server_is_asked_again":                     aBusyServerIsAskedAgain,
	"discovery_in_either_form":                         discoveryInEitherForm,
	"a_mapper_finds_kinds":                             aMapperFindsKinds,
	"custom_kinds_by_the_dynamic_client":               customKindsByTheDynamicClient,
	"metadata_alone":                                   metadataAlone,
	"leadership_changes_hands":                         leadershipChangesHands,
	"events_are_recorded":                              eventsAreRecorded,
}

// trial has the clients of a trial and the recorded requests.
type trial struct {
	context.Context
	config   *rest.Config
	client   *kubernetes.Clientset
	requests requests
}

// try runs one trial; "names" prints the names of all.
func try(name, kubeconfig string) error {
	if name == "names" {
		for _, name := range slices.Sorted(maps.Keys(trials)) {
			say(name)
		}
		return nil
	}
	play, found := trials[name]
	if !found {
		return fmt.Errorf("no such trial: %s", name)
	}
	config, err := config(kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), forever)
	defer cancel()
	trial := &trial{Context: ctx, config: config}
	config.Wrap(trial.requests.record)
	typed := rest.CopyConfig(config)
	typed.ContentType = protobuf
	if trial.client, err = kubernetes.NewForConfig(typed); err != nil {
		return err
	}
	play(trial)
	return nil
}

// parent requests an operation on the server from the parent.
func (t *trial) parent(order string) {
	say(order)
	check("the parent, asked to "+order, must(hear()), "done")
}

// requests records all requests, as "GET /path?query".
type requests struct {
	sync.Mutex
	all []string
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func (r *requests) record(next http.RoundTripper) http.RoundTripper {
	return transport(func(request *http.Request) (*http.Response, error) {
		r.Lock()
		r.all = append(r.all, request.Method+" "+request.URL.RequestURI())
		r.Unlock()
		return next.RoundTrip(request)
	})
}

// with returns the requests that contain all these texts.
func (r *requests) with(texts ...string) []string {
	r.Lock()
	defer r.Unlock()
	var found []string
	for _, request := range r.all {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(request, text) }) {
			found = append(found, request)
		}
	}
	return found
}

// fail ends the trial.
func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

func must2[T, U any](first T, second U, err error) (T, U) {
	mustDo(err)
	return first, second
}

func mustDo(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func check[T any](what string, is, wanted T) {
	if !reflect.DeepEqual(is, wanted) {
		fail("%s:\n  is     %+v\n  wanted %+v", what, is, wanted)
	}
}

// checkRefusal expects an error for which a predicate of client-go is true.
func checkRefusal[T any](what string, is func(error) bool) func(T, error) error {
	return func(_ T, err error) error {
		if !is(err) {
			fail("%s was refused with %#v", what, err)
		}
		return err
	}
}

// next returns the next value of a channel; it fails if none comes.
func next[T any](what string, channel <-chan T) T {
	select {
	case value, more := <-channel:
		if !more {
			fail("%s: no more", what)
		}
		return value
	case <-time.After(forever):
		fail("%s never came", what)
		panic("unreachable")
	}
}

func configMap(name, colour string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "ours"}},
		Data:       map[string]string{"colour": colour},
	}
}

// paint creates a config map, or changes its colour.
func (t *trial) paint(name, colour string) *corev1.ConfigMap {
	maps := t.client.CoreV1().ConfigMaps(home)
	if old, err := maps.Get(t, name, metav1.GetOptions{}); err == nil {
		old.Data = map[string]string{"colour": colour}
		return must(maps.Update(t, old, metav1.UpdateOptions{}))
	}
	return must(maps.Create(t, configMap(name, colour), metav1.CreateOptions{}))
}

func (t *trial) remove(name string) {
	mustDo(t.client.CoreV1().ConfigMaps(home).Delete(t, name, metav1.DeleteOptions{}))
}
