// Package watchkeeper starts a Kubernetes API server for a test and controls it: its clock, faults, snapshots, and a log of
// writes. It needs only the standard library; package watchkeepertest provides a rest.Config for client-go.
//
// The server is a separate process. It stops with the test, and with the process that started it, even if that is killed.
package watchkeeper

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// patience is the time a server has to stop before it is killed.
const patience = 15 * time.Second

// TB is the part of *testing.T and *testing.B that a cluster needs.
type TB interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Options of a cluster. The zero value is an API server without controllers, as in envtest.
type Options struct {
	// Simulator adds simulated nodes and controllers, so that pods run and deployments are rolled out.
	Simulator bool
	// Args are further arguments of `watchkeeper up`.
	Args []string
	// Program is the path of the program; by default $WATCHKEEPER_PROGRAM, or `watchkeeper` on the PATH.
	Program string
}

// Cluster is a running server.
type Cluster struct {
	// URL of the server.
	URL string
	// Token is the administrator's bearer token.
	Token string
	// CA is the server's CA certificate, PEM.
	CA []byte
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	wire    *wire
	process *exec.Cmd
	input   io.Closer
	ending  sync.Once
	ended   error
}

// Start starts a cluster for a test, and stops it at the end of the test.
func Start(t TB, options Options) *Cluster {
	t.Helper()
	cluster, err := Launch(t.TempDir(), options)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Fatalf("%v", err)
		}
	})
	return cluster
}

// Launch starts a cluster, to be ended by Stop; its kubeconfig is written to the directory.
func Launch(directory string, options Options) (*Cluster, error) {
	kubeconfig := filepath.Join(directory, "kubeconfig")
	words := []string{"up", "--testing", "--end-with-stdin", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig}
	if !options.Simulator {
		words = append(words, "--no-simulator")
	}
	process := exec.Command(program(options), append(words, options.Args...)...)
	var log bytes.Buffer
	process.Stderr = &log
	// The server stops when its standard input ends, at the latest with this process.
	input, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	cluster := &Cluster{Kubeconfig: kubeconfig, process: process, input: input}
	// It prints one line when it is ready, and none if it fails.
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		cluster.Stop()
		return nil, fmt.Errorf("the server did not start: %s", bytes.TrimSpace(log.Bytes()))
	}
	if err := cluster.reach(); err != nil {
		cluster.Stop()
		return nil, err
	}
	return cluster, nil
}

func program(options Options) string {
	for _, named := range []string{options.Program, os.Getenv("WATCHKEEPER_PROGRAM")} {
		if named != "" {
			return named
		}
	}
	return "watchkeeper"
}

// reach reads the kubeconfig written by the server.
func (c *Cluster) reach() error {
	text, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		return err
	}
	var fields [3]string
	for i, name := range []string{"server", "token", "certificate-authority-data"} {
		found := regexp.MustCompile(`(?m)^\s*` + name + `: (\S+)$`).FindSubmatch(text)
		if found == nil {
			return fmt.Errorf("the kubeconfig has no %s", name)
		}
		fields[i] = string(found[1])
	}
	c.URL, c.Token = fields[0], fields[1]
	if c.CA, err = base64.StdEncoding.DecodeString(fields[2]); err != nil {
		return err
	}
	c.wire, err = newWire(c.URL, c.Token, c.CA)
	return err
}

// Stop stops the server. It may be called repeatedly.
func (c *Cluster) Stop() error {
	c.ending.Do(func() { c.ended = c.stop() })
	return c.ended
}

func (c *Cluster) stop() error {
	c.input.Close()
	killer := time.AfterFunc(patience, func() { c.process.Process.Kill() })
	defer killer.Stop()
	var exit *exec.ExitError
	if err := c.process.Wait(); errors.As(err, &exit) {
		return fmt.Errorf("the server failed: %w", err)
	}
	return nil
}
