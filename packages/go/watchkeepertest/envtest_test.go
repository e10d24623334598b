package watchkeepertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// readyTimeout is envtest's timeout for a definition to be served.
const readyTimeout = 10 * time.Second

var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	websites = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "websites"}
)

// suite has the state of a test suite after envtest's Start.
type suite struct {
	t       *testing.T
	plane   *controlPlane
	config  *rest.Config
	clients kubernetes.Interface
	objects dynamic.Interface
}

// TestTheStepsOfEnvtest runs the steps of an operator's test suite with controller-runtime's envtest, in order on one
// control plane: start, add users, install definitions, install webhooks, run a controller, stop.
func TestTheStepsOfEnvtest(t *testing.T) {
	plane := startControlPlane(t)
	s := &suite{t: t, plane: plane, config: plane.addUser(t, "admin", "system:masters")}
	s.clients = kubernetes.NewForConfigOrDie(s.config)
	s.objects = dynamic.NewForConfigOrDie(s.config)

	s.defaultNamespaceExists()
	s.usersHaveTheRightsOfTheirGroups()
	s.installDefinitions()
	s.webhooksAreCalled()
	s.aControllerReconciles()
}

// defaultNamespaceExists waits for the default namespace, as envtest's Start does.
func (s *suite) defaultNamespaceExists() {
	eventually(s.t, "the default namespace", readyTimeout, func(ctx context.Context) (bool, error) {
		_, err := s.clients.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

func (s *suite) usersHaveTheRightsOfTheirGroups() {
	nobody := kubernetes.NewForConfigOrDie(s.plane.addUser(s.t, "nobody"))
	_, err := nobody.CoreV1().Secrets("default").List(context.Background(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		s.t.Fatalf("a user without permissions: %v", err)
	}
}

// installDefinitions creates a definition and waits until discovery shows it.
func (s *suite) installDefinitions() {
	text := map[string]any{"type": "string"}
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	openAPI := object(map[string]any{"spec": object(map[string]any{"domain": text})})
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "websites.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"kind": "Website", "plural": "websites"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": openAPI},
			}},
		},
	}}
	_, err := s.objects.Resource(definitions).Create(context.Background(), definition, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "websites are served", readyTimeout, func(context.Context) (bool, error) {
		served, err := s.clients.Discovery().ServerResourcesForGroupVersion("example.com/v1")
		if err != nil {
			return false, nil
		}
		return len(served.APIResources) == 1 && served.APIResources[0].Kind == "Website", nil
	})
}

// webhooksAreCalled installs a webhook served by this process, with the URL and CA in its configuration, as envtest does.
func (s *suite) webhooksAreCalled() {
	authority := newAuthority(s.t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(noUnderscores))
	certificate, key := authority.sign(s.t, pkix.Name{CommonName: "localhost"}, x509.ExtKeyUsageServerAuth)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		s.t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	s.t.Cleanup(server.Close)

	url, none := server.URL+"/validate", admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "websites"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "websites.example.com",
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             &none,
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority.pem},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"websites"},
				},
			}},
		}},
	}
	configurations := s.clients.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Create(context.Background(), configuration, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the webhook refuses", readyTimeout, func(context.Context) (bool, error) {
		err := s.create(website("bad", "a_b"))
		if err == nil {
			return false, s.objects.Resource(websites).Namespace("default").
				Delete(context.Background(), "bad", metav1.DeleteOptions{})
		}
		if !strings.Contains(err.Error(), "an underscore") {
			return false, err
		}
		return true, nil
	})
}

// noUnderscores is a webhook that rejects domains with an underscore.
func noUnderscores(answer http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if strings.Contains(string(review.Request.Object.Raw), "a_b") {
		response.Allowed = false
		response.Result = &metav1.Status{Message: "the domain has an underscore"}
	}
	review.Request, review.Response = nil, response
	answer.Header().Set("Content-Type", "application/json")
	json.NewEncoder(answer).Encode(review)
}

// aControllerReconciles runs a controller with an informer and a work queue. It creates an owned ConfigMap per website.
func (s *suite) aControllerReconciles() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	informers := dynamicinformer.NewDynamicSharedInformerFactory(s.objects, 0)
	informer := informers.ForResource(websites).Informer()
	enqueue := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		s.t.Fatal("the cache is not in sync")
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for s.reconcileNext(ctx, queue, informer.GetStore()) {
		}
	}()
	if err := s.create(website("home", "example.com")); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the ConfigMap of the website", readyTimeout, func(ctx context.Context) (bool, error) {
		pages, err := s.clients.CoreV1().ConfigMaps("default").Get(ctx, "home-pages", metav1.GetOptions{})
		return err == nil && pages.Data["domain"] == "example.com", nil
	})
	queue.ShutDown()
	<-finished
}

func (s *suite) reconcileNext(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], store cache.Store) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	found, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return true
	}
	owner := found.(*unstructured.Unstructured)
	domain, _, _ := unstructured.NestedString(owner.Object, "spec", "domain")
	pages := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:            owner.GetName() + "-pages",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, websites.GroupVersion().WithKind("Website"))},
		},
		Data: map[string]string{"domain": domain},
	}
	_, err = s.clients.CoreV1().ConfigMaps(owner.GetNamespace()).Create(ctx, pages, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	return true
}

func (s *suite) create(website *unstructured.Unstructured) error {
	_, err := s.objects.Resource(websites).Namespace("default").Create(context.Background(), website, metav1.CreateOptions{})
	return err
}

func website(name, domain string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Website",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"domain": domain},
	}}
}
