// The client-go peer: Kubernetes' own client, with the same tasks as ours and kube.
//
//	watchkeeper-client-go informer SCENARIO KUBECONFIG PODS   an informer with one handler (informer.go, latency.go)
//	watchkeeper-client-go local CASE ARGUMENT                 stores and queues, no server (local.go)
//	watchkeeper-client-go ask WHAT KUBECONFIG                 lists, watches and gets (ask.go)
//	watchkeeper-client-go try WHAT KUBECONFIG                 compatibility trials of the server (try.go, try_*.go)
//
// It talks to its parent in lines, as the Rust children of the benchmarks do.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// protobuf is the content type of Kubernetes' own components. The typed clients of this version prefer it in answers;
// here it is used for request bodies as well.
const protobuf = "application/vnd.kubernetes.protobuf"

func main() {
	// As in a program that has configured its logging.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 3 {
		return fmt.Errorf("what is to be done? informer, local, ask or try")
	}
	switch part, rest := arguments[0], arguments[1:]; {
	case part == "informer" && len(rest) == 3:
		return runInformer(rest[0], rest[1], rest[2])
	case part == "local":
		return runLocal(rest[0], rest[1])
	case part == "ask":
		return ask(rest[0], rest[1])
	case part == "try":
		return try(rest[0], rest[1])
	}
	return fmt.Errorf("no such part: %q", arguments)
}

// config is that of a kubeconfig, without client-go's rate limit, which the other clients do not have.
func config(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := config(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.ContentType = protobuf
	return kubernetes.NewForConfig(config)
}

var input = bufio.NewScanner(os.Stdin)

// say prints one line for the parent.
func say(line any) {
	fmt.Println(line)
}

// hear waits for a line from the parent.
func hear() (string, error) {
	if !input.Scan() {
		return "", errors.Join(errors.New("the parent has gone"), input.Err())
	}
	return input.Text(), nil
}

// report prints the measured numbers.
func report(numbers ...float64) {
	for at, number := range numbers {
		if at > 0 {
			fmt.Print(" ")
		}
		fmt.Print(number)
	}
	fmt.Println()
}
