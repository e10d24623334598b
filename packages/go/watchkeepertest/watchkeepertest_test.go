package watchkeepertest

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestClientGoFindsTheNamespacesOfEveryCluster(t *testing.T) {
	clients, err := kubernetes.NewForConfig(Start(t))
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := clients.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(namespaces.Items) != 4 {
		t.Fatalf("%+v", namespaces.Items)
	}
}
