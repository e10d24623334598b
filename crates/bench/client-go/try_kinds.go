// Discovery, and clients without compiled-in types.

package main

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

func discoveryInEitherForm(t *trial) {
	aggregated := must(discovery.NewDiscoveryClientForConfig(t.config))
	inOnePiece := resourcesOf(aggregated)
	check("requests", len(t.requests.with("GET /api")), 2)
	groupByGroup := resourcesOf(aggregated.WithLegacy())
	for name, resource := range groupByGroup {
		check(name, inOnePiece[name], resource)
	}
	check("how many there are", len(inOnePiece), len(groupByGroup))
	check("a version", must(aggregated.ServerVersion()).Major, "1")
	preferred := must(aggregated.ServerPreferredNamespacedResources())
	check("deployments are preferred in v1", slices.ContainsFunc(preferred, func(list *metav1.APIResourceList) bool { return list.GroupVersion == "apps/v1" }), true)

	document := must(aggregated.OpenAPISchema())
	check("definitions", len(document.Definitions.AdditionalProperties) > 100, true)
	for path, of := range must(aggregated.OpenAPIV3().Paths()) {
		check("the length of "+path, len(must(of.Schema("application/json"))) > 0, true)
	}
	check("health", string(must(aggregated.RESTClient().Get().AbsPath("/readyz").Do(t).Raw())), "ok")
}

// resourcesOf returns the resources of a server by group, version and name.
func resourcesOf(client discovery.DiscoveryInterface) map[string]metav1.APIResource {
	_, lists := must2(client.ServerGroupsAndResources())
	all := map[string]metav1.APIResource{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			// Fields that client-go itself fills differently in the two forms.
			resource.StorageVersionHash, resource.Group, resource.Version, resource.SingularName = "", "", "", ""
			slices.Sort(resource.Verbs)
			all[list.GroupVersion+" "+resource.Name] = resource
		}
	}
	return all
}

func (t *trial) mapper() *restmapper.DeferredDiscoveryRESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(must(discovery.NewDiscoveryClientForConfig(t.config))))
}

func aMapperFindsKinds(t *trial) {
	mapper := t.mapper()
	mapping := must(mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}))
	check("where deployments are", mapping.Resource, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	check("deployments have namespaces", mapping.Scope.Name(), meta.RESTScopeNameNamespace)
	check("namespaces have none", must(mapper.RESTMapping(schema.GroupKind{Kind: "Namespace"})).Scope.Name(), meta.RESTScopeNameRoot)
	short := restmapper.NewShortcutExpander(mapper, must(discovery.NewDiscoveryClientForConfig(t.config)), nil)
	for word, kind := range map[string]string{"deploy": "Deployment", "po": "Pod", "hpa": "HorizontalPodAutoscaler", "crd": "CustomResourceDefinition"} {
		found := must(short.KindFor(schema.GroupVersionResource{Resource: word}))
		check(word, found.Kind, kind)
	}
	_, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"})
	check("a kind that is not there", meta.IsNoMatchError(err), true)
	t.define()
	mapper.Reset()
	found := must(mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"}))
	check("a kind that is there now", found.Resource, widgets)
}

var (
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

type object = map[string]any

func (t *trial) dynamic() dynamic.Interface {
	return must(dynamic.NewForConfig(t.config))
}

// define creates the definition of widgets and waits until it is established.
func (t *trial) define() {
	properties := object{
		"spec": object{"type": "object", "properties": object{
			"size": object{"type": "integer", "default": int64(1), "maximum": int64(9)},
		}},
		"status": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
	}
	definition := &unstructured.Unstructured{Object: object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "widgets.example.com"},
		"spec": object{
			"group": "example.com", "scope": "Namespaced",
			"names": object{"plural": "widgets", "kind": "Widget"},
			"versions": []any{object{
				"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object", "properties": properties}},
			}},
		},
	}}
	api := t.dynamic().Resource(definitions)
	created := must(api.Create(t, definition, metav1.CreateOptions{}))
	events := must(api.Watch(t, metav1.ListOptions{FieldSelector: "metadata.name=" + created.GetName()})).ResultChan()
	for !established(next("the definition's condition", events).Object.(*unstructured.Unstructured)) {
	}
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		is := condition.(object)
		return is["type"] == "Established" && is["status"] == "True"
	})
}

func widget(name string, spec object) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": object{"name": name}, "spec": spec,
	}}
}

func customKindsByTheDynamicClient(t *trial) {
	t.define()
	api := t.dynamic().Resource(widgets).Namespace(home)
	told := make(chan string, 100)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(t.dynamic(), 0)
	registration := must(factory.ForResource(widgets).Informer().AddEventHandler(tellingNames(told)))
	factory.Start(t.Done())
	cache.WaitFor(t, "the first list", registration.HasSyncedChecker())

	created := must(api.Create(t, widget("a", object{}), metav1.CreateOptions{}))
	check("a default", created.Object["spec"], any(object{"size": int64(1)}))
	tells(told, "add a")
	checkRefusal[*unstructured.Unstructured]("a size too large", apierrors.IsInvalid)(api.Create(t, widget("b", object{"size": int64(10)}), metav1.CreateOptions{}))
	merged := must(api.Patch(t, "a", types.MergePatchType, []byte(`{"spec":{"size":5},"status":{"phase":"no"}}`), metav1.PatchOptions{}))
	check("a status by the wrong door", merged.Object["status"], nil)
	check("the generation", merged.GetGeneration(), int64(2))
	tells(told, "update a")
	merged.Object["status"] = object{"phase": "Ready"}
	reported := must(api.UpdateStatus(t, merged, metav1.UpdateOptions{}))
	check("the status", reported.Object["status"], any(object{"phase": "Ready"}))
	check("the generation after a status", reported.GetGeneration(), int64(2))
	tells(told, "update a")
	checkRefusal[*unstructured.Unstructured]("a strategic patch of a custom kind", apierrors.IsUnsupportedMediaType)(
		api.Patch(t, "a", types.StrategicMergePatchType, []byte(`{"spec":{"size":5}}`), metav1.PatchOptions{}))
	applied := must(api.Apply(t, "c", widget("c", object{"size": int64(3)}), metav1.ApplyOptions{FieldManager: "one"}))
	check("applied", applied.Object["spec"], any(object{"size": int64(3)}))
	tells(told, "add c")
	list := must(api.List(t, metav1.ListOptions{}))
	check("the list", []any{list.GetKind(), len(list.Items), list.Items[1].GetName()}, []any{"WidgetList", 2, "c"})
	mustDo(api.DeleteCollection(t, metav1.DeleteOptions{}, metav1.ListOptions{}))
	tells(told, "delete a", "delete c")

	// Built-in kinds, in JSON.
	roles := t.dynamic().Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
	check("roles of every cluster", len(must(roles.List(t, metav1.ListOptions{Limit: 5})).Items), 5)
}

func tellingNames(told chan<- string) cache.ResourceEventHandlerFuncs {
	say := func(what string, object any) {
		named, err := meta.Accessor(object)
		mustDo(err)
		told <- what + " " + named.GetName()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { say("add", object) },
		UpdateFunc: func(_, object any) { say("update", object) },
		DeleteFunc: func(object any) { say("delete", object) },
	}
}

func metadataAlone(t *trial) {
	whole := t.paint("a", "red")
	client := must(metadata.NewForConfig(t.config))
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	maps := client.Resource(resource).Namespace(home)
	head := must(maps.Get(t, "a", metav1.GetOptions{}))
	check("its metadata", head.ObjectMeta, whole.ObjectMeta)
	list := must(maps.List(t, metav1.ListOptions{LabelSelector: ours}))
	check("the list", []any{len(list.Items), list.Items[0].Name}, []any{1, "a"})
	labelled := must(maps.Patch(t, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"new":"yes"}}}`), metav1.PatchOptions{}))
	check("its label", labelled.Labels["new"], "yes")

	told := make(chan string, 100)
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, home, func(options *metav1.ListOptions) { options.LabelSelector = ours })
	registration := must(factory.ForResource(resource).Informer().AddEventHandler(tellingNames(told)))
	factory.Start(t.Done())
	cache.WaitFor(t, "the first list", registration.HasSyncedChecker())
	tells(told, "add a")
	t.paint("b", "red")
	tells(told, "add b")
	mustDo(maps.Delete(t, "a", metav1.DeleteOptions{}))
	tells(told, "delete a")
	events := must(maps.Watch(t, metav1.ListOptions{LabelSelector: ours})).ResultChan()
	event := next("b", events)
	check("the first event of a watch", fmt.Sprintf("%s %T", event.Type, event.Object), "ADDED *v1.PartialObjectMetadata")
}
