// Package watchkeepertest gives tests a cluster as client-go and controller-runtime want it: a rest.Config. It is a
// module of its own, so that package watchkeeper needs nothing but the standard library.
package watchkeepertest

import (
	"k8s.io/client-go/rest"
	watchkeeper "watchkeeper.example/go"
)

// Start starts an API server for a test, ends it with the test, and returns the administrator's configuration.
func Start(t watchkeeper.TB) *rest.Config {
	t.Helper()
	return Config(watchkeeper.Start(t, watchkeeper.Options{}))
}

// Config is the administrator's configuration of a cluster that the test drives.
func Config(cluster *watchkeeper.Cluster) *rest.Config {
	return &rest.Config{
		Host:            cluster.URL,
		BearerToken:     cluster.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CA},
		// Nobody else is to be spared.
		QPS: -1,
	}
}
