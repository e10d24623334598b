// Single objects and lists: errors, patches, apply, finalizers, pages and subresources.

package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod(name).Spec}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	}
}

func listsAreOfTheVersionAskedFor(t *trial) {
	maps := t.client.CoreV1().ConfigMaps(home)
	first := t.paint("a", "red")
	t.paint("a", "blue")
	colour := func(options metav1.ListOptions) string {
		options.LabelSelector = ours
		list := must(maps.List(t, options))
		check("items", len(list.Items), 1)
		return list.Items[0].Data["colour"]
	}
	check("now", colour(metav1.ListOptions{}), "blue")
	check("any", colour(metav1.ListOptions{ResourceVersion: "0"}), "blue")
	exact := metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	check("then", colour(exact), "red")
	notOlder := exact
	notOlder.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	check("not before then", colour(notOlder), "blue")

	future := t.client.CoreV1().RESTClient().Get().Namespace(home).Resource("configmaps").MaxRetries(0).
		Param("resourceVersion", "999999").Param("resourceVersionMatch", "NotOlderThan").Do(t).Error()
	check("a version to come is a matter of time", apierrors.IsTimeout(future), true)
	check("and says so", apierrors.HasStatusCause(future, metav1.CauseTypeResourceVersionTooLarge), true)
	t.parent("compact")
	t.paint("b", "blue")
	checkRefusal[*corev1.ConfigMapList]("a list of a forgotten version", apierrors.IsResourceExpired)(maps.List(t, exact))
}

func aPagerSeesEverythingOnce(t *trial) {
	for number := range 1000 {
		must(t.client.CoreV1().ConfigMaps(home).Create(t, configMap(fmt.Sprintf("map-%04d", number), "red"), metav1.CreateOptions{}))
	}
	forgetAfter := 0
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if forgetAfter--; forgetAfter == 0 {
			t.paint("map-0000", "blue")
			t.parent("compact")
			t.paint("map-0000", "green")
		}
		return t.client.CoreV1().ConfigMaps(home).List(ctx, options)
	}
	pages := pager.New(list)
	pages.PageSize, pages.PageBufferSize = 100, 0
	seen := map[string]int{}
	look := func(object runtime.Object) error {
		seen[object.(*corev1.ConfigMap).Name]++
		return nil
	}
	options := metav1.ListOptions{LabelSelector: ours}
	mustDo(pages.EachListItem(t, options, look))
	check("seen", len(seen), 1000)
	for name, times := range seen {
		check("times that "+name+" was seen", times, 1)
	}
	check("pages", len(t.requests.with("limit=100")), 10)

	// An expired continue token comes with another one, for the current state.
	page := must(t.client.CoreV1().ConfigMaps(home).List(t, metav1.ListOptions{Limit: 400}))
	check("a continuation", page.Continue != "" && page.RemainingItemCount != nil, true)
	t.paint("map-0001", "blue")
	t.parent("compact")
	t.paint("map-0001", "green")
	_, err := t.client.CoreV1().ConfigMaps(home).List(t, metav1.ListOptions{Limit: 400, Continue: page.Continue})
	check("an old continuation is refused", apierrors.IsResourceExpired(err), true)
	renewed := err.(apierrors.APIStatus).Status().ListMeta.Continue
	rest := must(t.client.CoreV1().ConfigMaps(home).List(t, metav1.ListOptions{Continue: renewed}))
	check("the rest", rest.Items[0].Name > page.Items[len(page.Items)-1].Name, true)
	// The pager falls back to a full list instead.
	forgetAfter = 3
	whole, _ := must2(pages.List(t, options))
	check("the whole list, in one piece", len(whole.(*corev1.ConfigMapList).Items), 1000)
}

func refusalsAreWhatTheyShouldBe(t *trial) {
	maps := t.client.CoreV1().ConfigMaps(home)
	refused := func(what string, is func(error) bool) func(*corev1.ConfigMap, error) error {
		return checkRefusal[*corev1.ConfigMap](what, is)
	}
	err := refused("what is not there", apierrors.IsNotFound)(maps.Get(t, "none", metav1.GetOptions{}))
	check("the message", err.Error(), `configmaps "none" not found`)
	t.paint("a", "red")
	err = refused("a second one", apierrors.IsAlreadyExists)(maps.Create(t, configMap("a", "red"), metav1.CreateOptions{}))
	check("the message", err.Error(), `configmaps "a" already exists`)
	err = refused("a bad name", apierrors.IsInvalid)(maps.Create(t, configMap("A_", "red"), metav1.CreateOptions{}))
	check("the field", err.(apierrors.APIStatus).Status().Details.Causes[0].Field, "metadata.name")
	elsewhere := t.client.CoreV1().ConfigMaps("nowhere")
	err = refused("a namespace that is not there", apierrors.IsNotFound)(elsewhere.Create(t, configMap("a", "red"), metav1.CreateOptions{}))
	check("the message", err.Error(), `namespaces "nowhere" not found`)
	versioned := configMap("b", "red")
	versioned.ResourceVersion = "1"
	err = refused("a version at birth", func(err error) bool { return err != nil })(maps.Create(t, versioned, metav1.CreateOptions{}))
	check("the message", err.Error(), "resourceVersion should not be set on objects to be created")
	checkRefusal[*corev1.Pod]("a pod without containers", apierrors.IsInvalid)(
		t.client.CoreV1().Pods(home).Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{}))
	broken := deployment("web")
	broken.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	checkRefusal[*appsv1.Deployment]("a selector that selects nothing", apierrors.IsInvalid)(
		t.client.AppsV1().Deployments(home).Create(t, broken, metav1.CreateOptions{}))
	checkRefusal[*corev1.ConfigMapList]("a bad selector", apierrors.IsBadRequest)(maps.List(t, metav1.ListOptions{LabelSelector: "a in b"}))
	checkRefusal[*corev1.ConfigMapList]("a field nobody selects by", apierrors.IsBadRequest)(maps.List(t, metav1.ListOptions{FieldSelector: "data.colour=red"}))
	check("a path that is not there", apierrors.IsNotFound(t.client.CoreV1().RESTClient().Get().AbsPath("/apis/none.example.com/v1").Do(t).Error()), true)
	check("a method that is not there", apierrors.IsMethodNotSupported(t.client.CoreV1().RESTClient().Put().AbsPath("/api/v1/namespaces/default/configmaps").Body([]byte("{}")).Do(t).Error()), true)
	generated := configMap("", "red")
	generated.GenerateName = "some-"
	named := must(maps.Create(t, generated, metav1.CreateOptions{}))
	check("a generated name", strings.HasPrefix(named.Name, "some-") && len(named.Name) == len("some-")+5, true)
}

func staleWritesAreRefused(t *trial) {
	maps := t.client.CoreV1().ConfigMaps(home)
	stale := t.paint("a", "red")
	fresh := t.paint("a", "blue")
	checkRefusal[*corev1.ConfigMap]("a stale update", apierrors.IsConflict)(maps.Update(t, stale, metav1.UpdateOptions{}))
	tries := 0
	mustDo(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		tries++
		object := stale.DeepCopy()
		if tries > 1 {
			object = must(maps.Get(t, "a", metav1.GetOptions{}))
		}
		object.Data["colour"] = "green"
		_, err := maps.Update(t, object, metav1.UpdateOptions{})
		return err
	}))
	check("tries", tries, 2)
	again := must(maps.Get(t, "a", metav1.GetOptions{}))
	same := must(maps.Update(t, again, metav1.UpdateOptions{}))
	check("the version after an update that changes nothing", same.ResourceVersion, again.ResourceVersion)
	check("its uid", same.UID, fresh.UID)
	preconditions := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}
	check("a delete of another object", apierrors.IsConflict(maps.Delete(t, "a", preconditions)), true)
	preconditions = metav1.DeleteOptions{Preconditions: metav1.NewRVDeletionPrecondition(fresh.ResourceVersion).Preconditions}
	check("a delete of an older object", apierrors.IsConflict(maps.Delete(t, "a", preconditions)), true)
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	mustDo(maps.Delete(t, "a", dry))
	must(maps.Get(t, "a", metav1.GetOptions{}))
	t.paint("b", "red")
	mustDo(maps.DeleteCollection(t, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ours}))
	check("what is left of ours", len(must(maps.List(t, metav1.ListOptions{LabelSelector: ours})).Items), 0)
}

func patchesOfEveryKind(t *trial) {
	maps, deployments := t.client.CoreV1().ConfigMaps(home), t.client.AppsV1().Deployments(home)
	t.paint("a", "red")
	patch := func(kind types.PatchType, text string, options metav1.PatchOptions) (*corev1.ConfigMap, error) {
		return maps.Patch(t, "a", kind, []byte(text), options)
	}
	var none metav1.PatchOptions
	merged := must(patch(types.MergePatchType, `{"data":{"colour":null,"size":"9"}}`, none))
	check("merged", merged.Data, map[string]string{"size": "9"})
	same := must(patch(types.MergePatchType, `{"data":{"size":"9"}}`, none))
	check("the version after a patch that changes nothing", same.ResourceVersion, merged.ResourceVersion)
	patched := must(patch(types.JSONPatchType, `[{"op":"test","path":"/data/size","value":"9"},{"op":"add","path":"/data/shape","value":"round"}]`, none))
	check("patched", patched.Data, map[string]string{"size": "9", "shape": "round"})
	checkRefusal[*corev1.ConfigMap]("a test that fails", apierrors.IsInvalid)(patch(types.JSONPatchType, `[{"op":"test","path":"/data/size","value":"8"}]`, none))
	checkRefusal[*corev1.ConfigMap]("a patch that is none", apierrors.IsBadRequest)(patch(types.JSONPatchType, `{"op":`, none))
	checkRefusal[*corev1.ConfigMap]("a stale patch", apierrors.IsConflict)(patch(types.MergePatchType, `{"metadata":{"resourceVersion":"`+merged.ResourceVersion+`"},"data":{"size":"7"}}`, none))
	tried := must(patch(types.MergePatchType, `{"data":{"size":"10"}}`, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}))
	check("a try's answer", tried.Data["size"], "10")
	check("what is there after a try", must(maps.Get(t, "a", metav1.GetOptions{})).Data["size"], "9")
	strict := metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}
	checkRefusal[*corev1.ConfigMap]("an unknown field", apierrors.IsInvalid)(patch(types.MergePatchType, `{"dota":{}}`, strict))

	must(deployments.Create(t, deployment("web"), metav1.CreateOptions{}))
	both := must(deployments.Patch(t, "web", types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"},{"name":"c","image":"web:2"}]}}}}`), none))
	images := []string{}
	for _, container := range both.Spec.Template.Spec.Containers {
		images = append(images, container.Name+" "+container.Image)
	}
	check("containers merged by name", images, []string{"side side:1", "c web:2"})
	check("the generation", both.Generation, int64(2))
	status := must(deployments.Patch(t, "web", types.MergePatchType, []byte(`{"spec":{"replicas":7},"status":{"replicas":2}}`), none, "status"))
	check("a status alone", []int32{*status.Spec.Replicas, status.Status.Replicas}, []int32{2, 2})
	check("the generation after a status", status.Generation, int64(2))
}

func applyKnowsWhoWroteWhat(t *trial) {
	maps := t.client.CoreV1().ConfigMaps(home)
	want := func(key, value string) *applycore.ConfigMapApplyConfiguration {
		return applycore.ConfigMap("a", home).WithData(map[string]string{key: value})
	}
	by := func(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }
	created := must(maps.Apply(t, want("colour", "red"), by("one")))
	check("the manager", created.ManagedFields[0].Manager+" "+string(created.ManagedFields[0].Operation), "one Apply")
	both := must(maps.Apply(t, want("size", "9"), by("two")))
	check("of both", both.Data, map[string]string{"colour": "red", "size": "9"})
	same := must(maps.Apply(t, want("size", "9"), by("two")))
	check("the version after the same again", same.ResourceVersion, both.ResourceVersion)
	err := checkRefusal[*corev1.ConfigMap]("what another one owns", apierrors.IsConflict)(maps.Apply(t, want("colour", "blue"), by("two")))
	cause := err.(apierrors.APIStatus).Status().Details.Causes[0]
	check("the cause", []string{string(cause.Type), cause.Field, cause.Message}, []string{"FieldManagerConflict", ".data.colour", `conflict with "one"`})
	forced := by("two")
	forced.Force = true
	taken := must(maps.Apply(t, want("colour", "blue"), forced))
	check("what is left of two's", taken.Data, map[string]string{"colour": "blue"})
	mine := must(applycore.ExtractConfigMap(taken, "two"))
	check("two's", mine.Data, map[string]string{"colour": "blue"})
	check("one's", len(must(applycore.ExtractConfigMap(taken, "one")).Data), 0)

	deployments := t.client.AppsV1().Deployments(home)
	labels := map[string]string{"app": "web"}
	container := func(name string) *applycore.ContainerApplyConfiguration {
		return applycore.Container().WithName(name).WithImage(name + ":1").
			WithPorts(applycore.ContainerPort().WithContainerPort(80))
	}
	web := func(containers ...*applycore.ContainerApplyConfiguration) *applyapps.DeploymentApplyConfiguration {
		return applyapps.Deployment("web", home).WithSpec(applyapps.DeploymentSpec().
			WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(applycore.PodTemplateSpec().WithLabels(labels).
				WithSpec(applycore.PodSpec().WithContainers(containers...))))
	}
	must(deployments.Apply(t, web(container("c"), container("side")), by("one")))
	alone := must(deployments.Apply(t, web(container("c")), by("one")))
	check("containers that are still wanted", len(alone.Spec.Template.Spec.Containers), 1)
	check("a default", string(alone.Spec.Template.Spec.Containers[0].Ports[0].Protocol), "TCP")
	status := applyapps.Deployment("web", home).WithStatus(applyapps.DeploymentStatus().WithReplicas(3))
	reported := must(deployments.ApplyStatus(t, status, by("reporter")))
	check("the status", reported.Status.Replicas, int32(3))
	extracted := must(applyapps.ExtractDeploymentStatus(reported, "reporter"))
	check("the reporter's", *extracted.Status.Replicas, int32(3))
	check("one's containers", *must(applyapps.ExtractDeployment(reported, "one")).Spec.Template.Spec.Containers[0].Name, "c")
}

func deletionWaitsForFinalizers(t *trial) {
	maps := t.client.CoreV1().ConfigMaps(home)
	held := configMap("a", "red")
	held.Finalizers = []string{"example.com/hold"}
	created := must(maps.Create(t, held, metav1.CreateOptions{}))
	events := must(maps.Watch(t, metav1.ListOptions{ResourceVersion: created.ResourceVersion, LabelSelector: ours})).ResultChan()
	t.remove("a")
	marked := next("the mark", events)
	check("the event of a delete", marked.Type, watch.Modified)
	check("it is marked", marked.Object.(*corev1.ConfigMap).DeletionTimestamp != nil, true)
	released := must(maps.Patch(t, "a", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{}))
	gone := next("its end", events)
	check("the event of its end", gone.Type, watch.Deleted)
	check("it has a version of its own", version(gone.Object) != version(marked.Object) && len(released.Finalizers) == 0, true)

	owner := t.paint("owner", "red")
	must(t.client.CoreV1().Namespaces().Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "brief"}}, metav1.CreateOptions{}))
	mustDo(maps.Delete(t, owner.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	waiting := must(maps.Get(t, owner.Name, metav1.GetOptions{}))
	check("who waits for dependents", waiting.Finalizers, []string{metav1.FinalizerDeleteDependents})
}

func rightsOfAnotherUser(t *trial) {
	config := rest.CopyConfig(t.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"readers"}}
	jane := must(kubernetes.NewForConfig(config)).CoreV1().ConfigMaps(home)
	err := checkRefusal[*corev1.ConfigMapList]("a list by jane", apierrors.IsForbidden)(jane.List(t, metav1.ListOptions{}))
	check("the message", err.Error(), `configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace "default"`)
	must(t.client.RbacV1().RoleBindings(home).Create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}, metav1.CreateOptions{}))
	must(jane.List(t, metav1.ListOptions{}))
	checkRefusal[*corev1.ConfigMap]("a write by jane", apierrors.IsForbidden)(jane.Create(t, configMap("a", "red"), metav1.CreateOptions{}))

	stranger := rest.AnonymousClientConfig(t.config)
	stranger.BearerToken = "wrong"
	checkRefusal[*corev1.NamespaceList]("a stranger", apierrors.IsUnauthorized)(
		must(kubernetes.NewForConfig(stranger)).CoreV1().Namespaces().List(t, metav1.ListOptions{}))
}

func subresources(t *trial) {
	pods, deployments := t.client.CoreV1().Pods(home), t.client.AppsV1().Deployments(home)
	must(deployments.Create(t, deployment("web"), metav1.CreateOptions{}))
	scale := must(deployments.GetScale(t, "web", metav1.GetOptions{}))
	check("the scale", []any{scale.Spec.Replicas, scale.Status.Selector}, []any{int32(2), "app=web"})
	scale.Spec.Replicas = 5
	must(deployments.UpdateScale(t, "web", scale, metav1.UpdateOptions{}))
	scaled := must(deployments.Get(t, "web", metav1.GetOptions{}))
	check("replicas", *scaled.Spec.Replicas, int32(5))
	scaled.Status.Replicas, scaled.Spec.Replicas = 5, ptr.To(int32(1))
	reported := must(deployments.UpdateStatus(t, scaled, metav1.UpdateOptions{}))
	check("a status changes nothing else", []int32{reported.Status.Replicas, *reported.Spec.Replicas}, []int32{5, 5})

	created := must(pods.Create(t, pod("p"), metav1.CreateOptions{}))
	check("defaults", []any{created.Spec.RestartPolicy, created.Status.Phase, created.Status.QOSClass},
		[]any{corev1.RestartPolicyAlways, corev1.PodPending, corev1.PodQOSBestEffort})
	checkRefusal[*corev1.Pod]("another name for its container", apierrors.IsInvalid)(pods.Patch(t, "p", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/containers/0/name","value":"d"}]`), metav1.PatchOptions{}))
	mustDo(pods.EvictV1(t, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}))
	checkRefusal[*corev1.Pod]("an evicted pod", apierrors.IsNotFound)(pods.Get(t, "p", metav1.GetOptions{}))

	accounts := t.client.CoreV1().ServiceAccounts(home)
	must(accounts.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))
	token := must(accounts.CreateToken(t, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))
	review := must(t.client.AuthenticationV1().TokenReviews().Create(t, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token},
	}, metav1.CreateOptions{}))
	check("whose token it is", []any{review.Status.Authenticated, review.Status.User.Username}, []any{true, "system:serviceaccount:default:robot"})
	access := must(t.client.AuthorizationV1().SelfSubjectAccessReviews().Create(t, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"}},
	}, metav1.CreateOptions{}))
	check("what the administrator may", access.Status.Allowed, true)
}

func aBusyServerIsAskedAgain(t *trial) {
	t.paint("a", "red")
	t.parent("refuse configmaps")
	must(t.client.CoreV1().ConfigMaps(home).Get(t, "a", metav1.GetOptions{}))
	check("gets", len(t.requests.with("GET", "/configmaps/a")), 3)
}
