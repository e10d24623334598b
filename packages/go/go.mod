module watchkeeper.example/go

go 1.21
