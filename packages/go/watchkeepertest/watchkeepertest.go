// Package watchkeepertest provides a cluster for tests with client-go and controller-runtime: a rest.Config. It is a separate
// module, so that package watchkeeper needs only the standard library.
package watchkeepertest

import (
	"k8s.io/client-go/rest"
	watchkeeper "watchkeeper.example/go"
)

// Start starts an API server for a test, stops it at the end, and returns the administrator's configuration.
func Start(t watchkeeper.TB) *rest.Config {
	t.Helper()
	return Config(watchkeeper.Start(t, watchkeeper.Options{}))
}

// Config returns the administrator's configuration of a cluster.
func Config(cluster *watchkeeper.Cluster) *rest.Config {
	return &rest.Config{
		Host:            cluster.URL,
		BearerToken:     cluster.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CA},
		// No rate limit: the server has no other clients.
		QPS: -1,
	}
}
