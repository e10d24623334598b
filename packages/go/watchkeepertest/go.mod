module watchkeeper.example/go/watchkeepertest

go 1.21

require (
	watchkeeper.example/go v0.1.0
	k8s.io/client-go v0.30.0
)

replace watchkeeper.example/go => ../
